"""ModelConfig and checkpoint folders: what is stored comes back, what does not fit is named."""

import ast
import json
import os
import pickle
import string
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import tiny_config

import models
from explorer.text import refusal
from models import CheckpointError, ModelConfig, build_model, load_checkpoint
from models.checkpoint import CARD
from models.foreign.system import SYSTEM
from models.positions import Scaling
from models.refusals import REFUSALS, Refusal
from models.tokenizer import Tokenizer
from models.training.saving import save_checkpoint
from models.training.vocabulary import train_tokenizer

BAD = [
    ("family", "decoder"),
    ("family", None),
    ("norm", "batchnorm"),
    ("norm_placement", "middle"),
    ("norm_placement", ["pre"]),
    ("positions", "absolute"),
    ("ffn", "mish"),
    *[
        (name, value)
        for name in ("vocab_size", "d_model", "n_layers", "n_heads", "d_ff", "n_ctx")
        for value in (0, -1, 2.0, "8", True, None)
    ],
    *[(name, value) for name in ("n_kv_heads", "n_encoder_layers") for value in (0, -2, 1.5, True)],
    *[
        (name, value)
        for name in ("final_norm", "bias", "tie_embeddings", "scale_embeddings", "lm_head")
        for value in (1, None, "yes")
    ],
    *[
        (name, value)
        for name in ("dropout", "norm_eps", "rope_base")
        for value in (float("nan"), float("inf"), "0.1", None, True, -0.5)
    ],
    *[("attention_dropout", value) for value in (float("nan"), float("inf"), "0.1", True, -0.5)],
    ("dropout", 1.0),
    ("attention_dropout", 1.0),
    ("norm_eps", 0.0),
    ("rope_base", 1.0),
    ("n_kv_heads", 3),
    ("n_heads", 5),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_field_is_named_with_its_value(name, value):
    with pytest.raises(ValueError, match=name) as refusal:
        tiny_config(**{name: value})
    if name != "n_heads" or value != 5:  # there the message is about d_model, and names both
        assert repr(value) in str(refusal.value)


def test_a_number_that_no_model_has_is_refused_in_words():
    for name, said, values in (
        ("d_ff", "it must be a whole number from 1 to 16777216", (2**24 + 1, 10**30, 10**400)),
        ("rope_base", r"rope_base is .*: it must be a finite number", (10**400, 1e31)),
    ):
        for value in values:
            with pytest.raises(ValueError, match=said):
                tiny_config(**{name: value})


def test_odd_widths_are_refused_only_where_positions_turn_pairs():
    with pytest.raises(ValueError, match="d_model is 15"):
        tiny_config(d_model=15, n_heads=3, positions="sinusoidal")
    with pytest.raises(ValueError, match="d_head is 5"):
        tiny_config(d_model=20, n_heads=4, positions="rotary")
    assert tiny_config(d_model=15, n_heads=3, positions="learned").d_head == 5
    assert tiny_config(d_model=20, n_heads=4, positions="sinusoidal").d_head == 5


EVERYTHING_CHANGED = """\
{"family": "encoder-only", "vocab_size": 31, "src_vocab_size": null, "d_model": 36,
"n_layers": 5, "n_encoder_layers": 7, "n_heads": 6, "n_kv_heads": 2, "d_ff": 50, "n_ctx": 40,
"n_types": 2, "unplaced": [3], "norm": "rmsnorm", "norm_placement": "pre", "final_norm": true,
"norm_eps": 1e-06, "positions": "rotary", "rope_base": 500000.0, "ffn": "silu", "n_experts": 3,
"n_active": 2, "experts_sum": true, "d_shared": 13, "dropout": 0.25,
"attention_dropout": 0.125, "picture": [4, 6, 2, 3], "n_marks": 2, "bias": false,
"tie_embeddings": false, "scale_embeddings": false, "lm_head": false, "head_dim": 8,
"qk_norm": true, "qk_norm_joint": true, "embed_norm": true, "first_norm": false, "d_embed": 20,
"shared_layers": true, "head_net": true, "unembed_bias": true, "out_norms": true,
"parallel": true, "near_rope_base": 20000.0, "near_layers": [0, 2], "window": 7,
"still_layers": [1],
"rope_scaling": {"divisors": [1.0, 4.0], "n_ctx": 9, "far": [2.0, 8.0], "growth": null},
"rotary_dim": 4, "score_divisor": 3.0, "score_cap": 50.0, "logit_cap": 30.0}"""
"""The config of an encoder, which has no source; every other field has another value than usual."""


def test_every_field_survives_its_json():
    config, default = ModelConfig.from_json(EVERYTHING_CHANGED), ModelConfig(vocab_size=30)
    for field in fields(ModelConfig):
        if field.name != "src_vocab_size":
            assert getattr(config, field.name) != getattr(default, field.name), field.name
    assert (config.picture, config.rope_scaling) == (
        (4, 6, 2, 3),
        Scaling((1.0, 4.0), 9, (2.0, 8.0)),
    )
    assert ModelConfig.from_json('{"vocab_size": 30, "src_vocab_size": 20}').n_tokens("src") == 20
    assert ModelConfig.from_json(config.to_json()) == config
    assert json.loads(config.to_json()) == json.loads(EVERYTHING_CHANGED)
    assert ModelConfig.from_json(default.to_json()) == default


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("[1, 2]", "one JSON object"),
        ("{}", "vocab_size is missing"),
        ('{"vocab_size": 30, "n_head": 4, "alpha": 1}', "unknown fields: alpha, n_head"),
    ],
)
def test_bad_json_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig.from_json(text)


HOME = Path(models.__file__).parent
FILES = [
    *sorted((HOME / "foreign").glob("*.py")),
    *sorted((HOME / "pictures").glob("*.py")),
    *(HOME / name for name in ("checkpoint.py", "config.py", "tokenizer.py")),
]
KINDS = {"Refusal", "CheckpointError"}


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_nothing_is_refused_but_by_a_key_with_its_values():
    used = set()
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and node.exc is not None:
                assert isinstance(node.exc, ast.Call), (path.name, node.lineno)
                assert isinstance(node.exc.func, ast.Name), (path.name, node.lineno)
                assert node.exc.func.id in KINDS, f"{path.name}:{node.lineno}"
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        for call in calls:
            if not isinstance(call.func, ast.Name) or call.func.id not in KINDS:
                continue
            (key,) = call.args
            if isinstance(key, ast.Constant):  # of a config's fields the caller says the key
                said = {keyword.arg for keyword in call.keywords}
                assert said == placeholders(REFUSALS[key.value]), f"{path.name}:{call.lineno}"
    elsewhere = {"json_syntax", "unreadable", "no_such_folder", *SYSTEM.values()}
    assert used >= set(REFUSALS) - elsewhere


@pytest.mark.parametrize("key", REFUSALS)
def test_every_refusal_has_words_in_both_languages_with_the_same_values(key):
    values = {name: f"<{name}>" for name in placeholders(REFUSALS[key])}
    english, chinese = (refusal(Refusal(key, **values), lang=lang) for lang in ("en", "zh"))
    assert english == str(Refusal(key, **values))
    for value in values.values():
        assert value in chinese
    assert chinese != english or key == "gguf_block"  # names alone


def test_a_reason_within_a_reason_is_said_in_the_language_too():
    inner = Refusal("lacks_key", name="n_head")
    outer = CheckpointError("within", file="tiny", reason=Refusal("within", file="c", reason=inner))
    assert str(outer) == "tiny: c: n_head is missing"
    assert refusal(outer, lang="zh") == "tiny：c：缺少 n_head"
    again = pickle.loads(pickle.dumps(outer))
    assert type(again) is CheckpointError
    assert refusal(again, lang="zh") == refusal(outer, lang="zh")


def test_another_librarys_error_keeps_its_words_and_long_values_are_cut():
    refused = Refusal("no_index", file="x" * 9999, reason=KeyError("weight_map"))
    assert "'weight_map'" in refusal(refused, lang="zh")
    assert len(refusal(refused, lang="zh")) < 400


PARTS = ("config.json", "model.safetensors", "tokenizer.json")
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
    embeddings = (m for m in loaded.model.modules() if isinstance(m, torch.nn.Embedding))
    assert (loaded.model.unembed.weight in {each.weight for each in embeddings}) == tied


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
        *((name, None, f"tiny: {name} is missing") for name in PARTS),
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
