"""Folders as training leaves them, adapters, and models found in HEADLIGHT_MODELS."""

import json
import os
from pathlib import Path

import pytest
import tokenizers
import torch
from foreign import Golden, change_weights, refused
from safetensors.torch import load_file, save_file

from models import CheckpointError, refusals
from models.foreign import found, look, open_folder, weights
from models.foreign.finding import VARIABLE, without_models
from models.training.commands import main


@pytest.fixture
def folder(tmp_path) -> Path:
    return Golden.load("gpt2").write(tmp_path / "tiny", "own")


def test_pickles_in_parts_from_a_gpu_are_converted_on_a_machine_without_one(folder, monkeypatch):
    """The file says of each tensor that it was on a GPU, as one that was saved there does."""
    whole = load_file(folder / "model.safetensors")
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
    for number in (0, 1):
        part = {key: whole[key] for key in sorted(whole)[number::2]}
        torch.save(part, folder / f"pytorch_model-0000{number + 1}-of-00002.bin")
    monkeypatch.undo()
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="CUDA"):
            torch.load(folder / "pytorch_model-00001-of-00002.bin", weights_only=True)
    (folder / "model.safetensors").unlink()
    monkeypatch.chdir(folder)
    exec(weights.CONVERSION.removeprefix('python -c "').removesuffix('"'), {})
    assert open_folder(folder).model.state_dict().keys()


@pytest.mark.parametrize(
    ("family", "wrapper"),
    [("gpt2", "_orig_mod."), ("llama", "module."), ("bert", "module._orig_mod."), ("gpt2", "deep")],
)
def test_names_that_training_wraps_around_a_model_are_stripped(tmp_path, family, wrapper):
    folder = Golden.load(family).write(tmp_path / "tiny", "own")
    plain = open_folder(folder).model.state_dict()

    def wrapped(name: str) -> str:
        first, _, rest = name.partition(".")
        return f"{first}._fsdp_wrapped_module.{rest}" if wrapper == "deep" else f"{wrapper}{name}"

    tensors = load_file(folder / "model.safetensors")
    save_file({wrapped(k): t for k, t in tensors.items()}, folder / "model.safetensors")
    opened = open_folder(folder).model.state_dict()
    assert opened.keys() == plain.keys()
    assert all(torch.equal(opened[name], plain[name]) for name in plain)


@pytest.mark.parametrize(
    ("family", "head"),
    [
        ("llama", "score.weight"),
        ("gpt2", "v_head.summary.weight"),
        ("bert", "classifier.bias"),
        ("t5", "classifier.bias"),
    ],
)
def test_a_head_of_another_task_is_listed_as_not_shown(tmp_path, family, head, capsys):
    folder = Golden.load(family).write(tmp_path / "tiny", "own")
    change_weights(folder, lambda tensors: tensors.update({head: torch.zeros(2, 24)}))
    assert open_folder(folder).not_shown == (head,)
    assert look(folder).parameters > 0
    main(["info", str(folder)])
    assert f"not shown here: {head}" in capsys.readouterr().err


def test_a_token_that_was_added_beyond_the_model_is_no_reason_to_refuse_it(folder):
    """Gemma 3 has one for pictures. A text that contains it is refused, and it is no mark."""
    path = folder / "tokenizer.json"
    raw = tokenizers.Tokenizer.from_file(str(path))
    raw.add_special_tokens(["<image>", "<pad>"])
    raw.add_tokens(["picture"])
    assert raw.token_to_id("<image>") == 260
    raw.save(str(path))
    (folder / "tokenizer_config.json").write_text('{"pad_token": "<pad>"}')
    assert look(folder).n_tokens == 263
    tokenizer = open_folder(folder).tokenizer
    assert tokenizer.marks.pad is None
    assert max(tokenizer.encode("a picnic <imag")) < 260
    for token in ("<image>", "picture"):
        with pytest.raises(refusals.Refusal, match=f"{token}: .* no embedding"):
            tokenizer.encode(f"one {token}")
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single="<pad> $A", pair="$A $B", special_tokens=[("<pad>", 261)]
    )
    raw.save(str(path))
    refused(folder, "tokenizer.json: the tokenizer adds <pad> to every text", "only 260 tokens")


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter_model.bin"])
def test_an_adapter_says_what_it_belongs_to_and_how_it_is_merged(tmp_path, name):
    folder = tmp_path / "mine"
    folder.mkdir()
    said = {"peft_type": "LORA", "base_model_name_or_path": "org/base"}
    (folder / "adapter_config.json").write_text(json.dumps(said))
    save_file({"base_model.model.x.lora_A.weight": torch.ones(2, 24)}, folder / name)
    assert found([tmp_path]) == {"mine": folder}
    refused(folder, "adapter (LORA)", "org/base", "merge_and_unload")
    with pytest.raises(CheckpointError, match="org/base"):
        look(folder)
    (folder / "config.json").write_text("{}")  # some trainings leave the base's beside it
    refused(folder, "org/base")


def test_a_folder_of_models_a_model_and_the_cache_of_the_hub(tmp_path):
    many, one = tmp_path / "many", tmp_path / "one"
    Golden.load("gpt2").write(many / "b")
    Golden.load("gpt2").write(many / "a")
    (many / "not-a-model").mkdir()
    Golden.load("gpt2").write(one)
    old = Golden.load("gpt2").write(tmp_path / "hub" / "models--org--name" / "snapshots" / "old")
    new = Golden.load("llama").write(old.parent / "new")
    (old.parents[1] / "refs").mkdir()
    (old.parents[1] / "refs" / "main").write_text("old\n")
    models = found([many, one, tmp_path / "hub", tmp_path / "missing"])
    assert list(models) == ["a", "b", "one", "org/name"]
    assert models["one"] == one
    assert open_folder(models["org/name"]).folder == old
    (old.parents[1] / "refs" / "main").unlink()
    os.utime(old, (1, 1))
    assert open_folder(models["org/name"]).folder == new


def test_models_two_levels_down_are_found(tmp_path):
    """As other programs keep them (org/name), and as a training leaves its checkpoints."""
    for name in ("org/one", "org/two", "run/checkpoint-500", "far/too/deep"):
        Golden.load("gpt2").write(tmp_path / name)
    (tmp_path / "publisher" / "repository").mkdir(parents=True)
    (tmp_path / "publisher" / "repository" / "bits.gguf").touch()
    (tmp_path / "publisher" / "notes.txt").touch()
    for name in (".locks/models--org--name", ".git/inside", "models--org--gone/blobs"):
        (tmp_path / name).mkdir(parents=True)
    Golden.load("gpt2").write(tmp_path / ".git" / "inside")
    # What belongs to a model is no model of its own.
    Golden.load("gpt2").write(tmp_path / "org" / "one" / "1_Pooling")
    models = found([tmp_path])
    assert list(models) == ["org/one", "org/two", "bits", "run/checkpoint-500"]
    assert models["org/two"] == tmp_path / "org" / "two"


def test_two_models_of_one_name_are_told_apart(tmp_path):
    for place in ("x", "y"):
        Golden.load("gpt2").write(tmp_path / place / "same")
    assert list(found([tmp_path / "x", tmp_path / "y", tmp_path / "x"])) == ["same", "y/same"]


def test_the_variable_names_folders_as_path_does(tmp_path, monkeypatch):
    Golden.load("gpt2").write(tmp_path / "a" / "mine")
    monkeypatch.setenv(VARIABLE, f"{tmp_path / 'nothing'}{os.pathsep}{tmp_path / 'a'}")
    assert list(found()) == ["mine"]
    assert without_models() == ()
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv(VARIABLE, f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'empty'}")
    assert without_models() == (tmp_path / "empty",)
    monkeypatch.delenv(VARIABLE)
    assert found() == {}


def test_weights_without_a_config_and_links_to_nothing_are_found(tmp_path):
    """So that the list of models says why they cannot be opened."""
    (Golden.load("gpt2").write(tmp_path / "bare") / "config.json").unlink()
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "ggufs").mkdir()
    for name in ("few", "many"):
        (tmp_path / "ggufs" / f"{name}-bits.gguf").touch()
    (tmp_path / "notes").mkdir()
    assert list(found([tmp_path])) == ["bare", "circle", "few-bits", "many-bits"]
    assert list(found([tmp_path / "bare"])) == ["bare"]
    assert list(found([tmp_path / "ggufs" / "few-bits.gguf"])) == ["few-bits"]
