"""Checkpoint folders: what is stored comes back, and what does not fit is refused by name."""

import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from models import CheckpointError, ModelConfig, build_model, load_checkpoint
from models.checkpoint import CARD
from models.tokenizer import Tokenizer
from models.training.saving import save_checkpoint
from models.training.vocabulary import train_tokenizer

FILES = ("config.json", "model.safetensors", "tokenizer.json")
TEXTS = ["the fox likes the dog", "我喜欢你"] * 2


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TEXTS, vocab_size=60)


def config(tokenizer: Tokenizer, **changes: object) -> ModelConfig:
    sizes = {"vocab_size": tokenizer.vocab_size, "d_model": 16, "n_layers": 2, "n_heads": 2}
    return ModelConfig(**{**sizes, "d_ff": 24, **changes})


@pytest.fixture
def folder(tokenizer, tmp_path) -> Path:
    torch.manual_seed(0)
    save_checkpoint(tmp_path / "tiny", build_model(config(tokenizer)), tokenizer, "# A card")
    return tmp_path / "tiny"


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_model_comes_back(family, tied, tokenizer, tmp_path):
    model = build_model(config(tokenizer, family=family, tie_embeddings=tied))
    save_checkpoint(tmp_path, model, tokenizer, "# Card")
    loaded = load_checkpoint(tmp_path)
    assert loaded.config == model.config
    assert (loaded.folder / CARD).read_text(encoding="utf-8") == "# Card"
    assert not loaded.model.training
    assert not any(p.requires_grad for p in loaded.model.parameters())
    saved = dict(model.named_parameters())
    for name, parameter in loaded.model.named_parameters():
        assert torch.equal(parameter, saved[name])
    assert (loaded.model.unembed.weight.data_ptr() in _embedding_pointers(loaded.model)) == tied


def _embedding_pointers(model: torch.nn.Module) -> set[int]:
    embeddings = [m for m in model.modules() if isinstance(m, torch.nn.Embedding)]
    return {m.weight.data_ptr() for m in embeddings}


def test_half_precision_halves_the_file_and_is_computed_in_float32(folder, tokenizer, tmp_path):
    model = load_checkpoint(folder).model
    save_checkpoint(tmp_path / "half", model, tokenizer, dtype=torch.float16)
    half = (tmp_path / "half" / "model.safetensors").stat().st_size
    assert half < 0.6 * (folder / "model.safetensors").stat().st_size
    loaded = load_checkpoint(tmp_path / "half").model
    for p, q in zip(model.parameters(), loaded.parameters(), strict=True):
        assert q.dtype == torch.float32
        assert torch.equal(q, p.half().float())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        *((name, None, f"tiny: {name} is missing") for name in FILES),
        *(("config.json", text, "config.json") for text in ("", "[]", "{", "{}", "\x00")),
    ],
)
def test_a_file_that_is_missing_or_no_config_is_named(folder, name, text, message):
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_text(text)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_heads": 3}, "d_model is 16.*n_heads = 3"),
        ({"norm": "batchnorm"}, "norm is 'batchnorm'"),
        ({"d_model": "16"}, "d_model is '16'"),
        ({"colour": 1}, "unknown fields: colour"),
        ({"d_ff": 32}, r"w_up.* has shape \(24, 16\); the config requires \(32, 16\)"),
        ({"n_layers": 3}, "does not contain decoder.blocks.2"),
        ({"n_layers": 1}, "contains an unknown tensor, decoder.blocks.1"),
        ({"pad_id": 2, "eos_id": 0}, "ids of pad, start and end"),
        ({"vocab_size": 10}, "the tokenizer has .* tokens, but the model only 10"),
        # Memory that no weight vouches for is not taken.
        ({"n_layers": 10**7}, r"tensors; the config requires \d+ layers"),
        ({"d_ff": 2**24}, "the config requires"),
        ({"d_model": 2**24}, "the config requires"),
        ({"n_ctx": 2**24}, "n_ctx is 16777216; its positions need more than"),
        ({"d_ff": 10**30}, "must be a whole number from 1 to 16777216"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(folder, changes, message):
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | changes))
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(folder)


def test_truncated_weights_are_refused(folder):
    data = (folder / "model.safetensors").read_bytes()
    for length in (0, 7, 100, len(data) - 1):
        (folder / "model.safetensors").write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="not a readable safetensors file"):
            load_checkpoint(folder)


def test_a_pickle_is_refused_and_never_run(folder, tmp_path):
    canary = tmp_path / "canary"

    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(canary),)

    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError):
        load_checkpoint(folder)
    assert not canary.exists()


def test_weights_that_are_not_finite_are_refused(folder):
    tensors = load_file(folder / "model.safetensors")
    tensors["decoder.blocks.1.attn.w_q.weight"][0, 0] = torch.nan
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"w_q.weight contains NaN or infinity"):
        load_checkpoint(folder)


def test_a_failed_write_leaves_the_old_checkpoint(folder, tokenizer, monkeypatch):
    before = load_checkpoint(folder)

    def broken(*args: object, **kwargs: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("models.training.saving.save_file", broken)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(folder, build_model(config(tokenizer)), tokenizer)
    after = load_checkpoint(folder)
    for p, q in zip(before.model.parameters(), after.model.parameters(), strict=True):
        assert torch.equal(p, q)
