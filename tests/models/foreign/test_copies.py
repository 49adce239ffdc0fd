"""A stored tensor that usually copies another one, with numbers of its own: it is used.

`transformers` does so too, whatever the config says of ties: the logits here are its own.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from foreign import COPIED, COPIES, Golden, change_weights, own_numbers, weights
from safetensors.torch import load_file, save_file

from models.checkpoint import CheckpointError
from models.foreign import look, open_folder
from models.positions import frequencies
from models.rows import Rows
from models.transformer import Model


def folder_with(name: str, path: Path, **tensors: torch.Tensor) -> Path:
    """A golden model as a folder, with more tensors in its file."""
    folder = Golden.load(name).write(path / "tiny")
    change_weights(folder, lambda stored: stored.update(tensors))
    return folder


def logits(golden: Golden, model: Model) -> np.ndarray:
    ids = {stream: torch.tensor(golden.arrays[f"first.{stream}"])[None] for stream in model.reads}
    return model.read(Rows(ids["tgt"], None, ids.get("src")))[0].numpy()


@pytest.mark.parametrize(("name", "tensor", "copied"), COPIES)
def test_it_is_used_where_it_differs_and_an_equal_one_changes_nothing(
    name, tensor, copied, tmp_path
):
    golden = Golden.load(name)
    own = own_numbers(tensor, golden.tensors()[copied])
    folder = folder_with(name, tmp_path, **{tensor: own})
    model = open_folder(folder).model
    with np.load(COPIED) as file:
        expected = file[f"{name}/{tensor}"]
    ours = logits(golden, model)
    assert np.abs(ours - expected).max() <= 1e-4 * np.abs(expected).max()
    usual = golden.arrays["first/hook_logits"]
    assert np.abs(usual - expected).max() > 0.01 * np.abs(usual).max(), "the copy matters"
    assert look(folder).n_layers == 2
    folder = folder_with(name, tmp_path / "equal", **{tensor: golden.tensors()[copied].clone()})
    model = open_folder(folder).model
    assert np.abs(logits(golden, model) - usual).max() <= 1e-4 * np.abs(usual).max()
    assert model.config.tie_embeddings


def test_a_stored_table_of_positions_is_used(tmp_path):
    table = weights("another table", (40, 24))
    names = {
        f"model.{stack}.embed_positions.weight": table + i
        for i, stack in enumerate(("encoder", "decoder"))
    }
    model = open_folder(folder_with("marian", tmp_path, **names)).model
    assert torch.equal(model.get_parameter("encoder.positions.weight"), table)
    assert torch.equal(model.get_parameter("decoder.positions.weight"), table + 1)


@pytest.mark.parametrize("name", ["llama", "llama-linear", "gpt_neox", "gemma3_text"])
def test_stored_angles_must_be_those_of_the_config(name, tmp_path):
    """`transformers` ignores them, so another base would be lost in silence."""
    config = open_folder(folder_with(name, tmp_path)).config
    angles = frequencies(config.rotary_dim or config.d_head, config.rope_base)
    owner = "gpt_neox.layers.0.attention" if name == "gpt_neox" else "model.layers.0.self_attn"
    tensor = f"{owner}.rotary_emb.inv_freq"
    divisors = config.rope_scaling and config.rope_scaling.divisors
    scaled = angles / torch.tensor(divisors) if divisors else angles
    for right in (angles.half(), scaled.float()):
        open_folder(folder_with(name, tmp_path, **{tensor: right}))
    for wrong in (angles / 2, angles[:-1], angles.flip(0)):
        folder = folder_with(name, tmp_path, **{tensor: wrong.float()})
        with pytest.raises(CheckpointError, match=r"inv_freq contains rotation angles that differ"):
            open_folder(folder)


def test_a_copy_that_is_no_number_is_refused(tmp_path):
    broken = torch.full((61, 24), torch.nan)
    folder = folder_with("llama-tied", tmp_path, **{"lm_head.weight": broken})
    with pytest.raises(CheckpointError, match=r"lm_head\.weight contains NaN or infinity"):
        open_folder(folder)


@pytest.mark.parametrize(
    ("name", "architecture", "lacking"),
    [
        ("llama", "LlamaModel", ("lm_head.weight",)),
        ("gpt_neox", "GPTNeoXModel", ("embed_out.weight",)),
        ("marian", "MarianModel", ("final_logits_bias",)),
        ("mt5", "MT5Model", ("lm_head.weight",)),
    ],
)
def test_a_base_model_opens_without_an_output(name, architecture, lacking, tmp_path):
    golden = Golden.load(name)
    folder = golden.write(tmp_path / "tiny")
    tensors = load_file(folder / "model.safetensors")
    untied = {"tie_word_embeddings": name == "marian"}
    for key in lacking:
        tensors.pop(key)
    for prefix in ("model.", "gpt_neox."):
        tensors = {key.removeprefix(prefix): each for key, each in tensors.items()}
    save_file(tensors, folder / "model.safetensors")
    for named in ([architecture], "absent"):
        config = golden.config | untied | {"architectures": named}
        (folder / "config.json").write_text(json.dumps(config))
        model = open_folder(folder).model
        ours = model.config
        assert (ours.lm_head, ours.generates, ours.fills) == (False, False, False)
        assert logits(golden, model).shape == (14, 0)
    (folder / "config.json").write_text(json.dumps(golden.config | untied))
    with pytest.raises(CheckpointError, match=f"does not contain .*{lacking[0]}"):
        open_folder(folder)  # a class with a head
