"""A larger model begins as the smaller one: the same numbers out, and all of it can learn."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from models import ModelConfig, build_model, load_checkpoint
from models.__main__ import main
from models.rows import Rows
from models.training.saving import SNAPSHOTS, save_checkpoint, snapshot_name
from models.training.vocabulary import characters, train_tokenizer
from models.transformer import EncoderDecoder, Model
from recipes.growing import add_tokens, grow

SIZES: dict[str, Any] = {
    "vocab_size": 30, "d_model": 16, "n_heads": 4, "d_ff": 24, "norm_placement": "pre",
    "final_norm": True,
}  # fmt: skip
MODERN: dict[str, Any] = {
    "family": "decoder-only", "n_kv_heads": 1, "norm": "rmsnorm", "positions": "rotary",
    "ffn": "swiglu", "bias": False,
}  # fmt: skip


def built(seed: int, **changes: Any) -> Model:
    torch.manual_seed(seed)
    model = build_model(ModelConfig(**{**SIZES, **changes})).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:  # so that a lost bias or norm shows
            torch.nn.init.normal_(parameter)
    return model


def logits(model: Model) -> torch.Tensor:
    tokens = torch.randint(3, 30, (2, 7), generator=torch.Generator().manual_seed(1))
    everything = torch.ones_like(tokens, dtype=torch.bool)
    if isinstance(model, EncoderDecoder):
        return model.read(Rows(tokens.flip(1), everything, tokens, everything))
    return model.read(Rows(tokens, everything))


@pytest.mark.parametrize("kind", [{}, MODERN], ids=["encoder-decoder", "modern decoder"])
@pytest.mark.parametrize("times", [2, 3])
def test_a_grown_model_computes_the_same(kind, times):
    small = built(0, n_layers=2, **kind)
    grown = built(1, n_layers=2 * times, dropout=0.3, **kind)
    assert not torch.allclose(logits(grown), logits(small), atol=0.1)
    grow(small, grown)
    assert torch.equal(logits(grown), logits(small))


def test_each_layer_is_followed_by_its_own_copy_and_the_copy_can_learn():
    small, grown = built(0, n_layers=2, **MODERN), built(1, n_layers=4, **MODERN)
    grow(small, grown)
    before, now = (dict(model.named_parameters()) for model in (small, grown))
    logits(grown).square().sum().backward()
    for layer in range(4):
        for part in ("attn.w_q", "attn.w_o", "attn_norm", "ffn.w_up", "ffn.w_down"):
            weight = now[f"blocks.{layer}.{part}.weight"]
            if layer % 2 and part in ("attn.w_o", "ffn.w_down"):
                assert not weight.any()
                assert weight.grad is not None
                assert weight.grad.any()
            else:
                assert torch.equal(weight, before[f"blocks.{layer // 2}.{part}.weight"])


@pytest.mark.parametrize(
    ("small", "large", "message"),
    [
        ({}, {"n_layers": 3}, "n_layers is 3: it must be a multiple of the 2"),
        ({}, {"n_layers": 1}, "n_layers is 1: it must be a multiple of the 2"),
        ({}, {"d_ff": 32}, "only n_layers and dropout may differ"),
        (
            {"norm_placement": "post"},
            {"norm_placement": "post"},
            "is 'post': .* only where it is 'pre'",
        ),
        (
            {"norm_placement": "sublayer"},
            {"norm_placement": "sublayer"},
            "is 'sublayer': .* only where",
        ),
    ],
)
def test_what_cannot_grow_is_refused(small, large, message):
    with pytest.raises(ValueError, match=message):
        grow(built(0, **{"n_layers": 2, **small}), built(0, **{"n_layers": 4, **large}))


def test_a_recipe_with_more_layers_begins_with_the_grown_model(tmp_path):
    story = "the fox likes the dog and the dog likes the fox"
    tokenizer = train_tokenizer([story] * 2, vocab_size=30)
    small = built(0, n_layers=1, vocab_size=tokenizer.vocab_size, **MODERN)
    save_checkpoint(tmp_path / "small", small, tokenizer)
    (tmp_path / "stories.txt").write_text(f"{story}\n<|endoftext|>\n")
    wanted = replace(small.config, n_layers=2)
    settings = "\n".join(
        f"{field} = {json.dumps(value)}"
        for field, value in json.loads(wanted.to_json()).items()
        if value is not None
    )
    (tmp_path / "deeper.toml").write_text(
        f'[data]\nstart = "{tmp_path / "small"}"\n[model]\n{settings}\n'
        "[training]\nepochs = 1\naverage = 1\nsnapshots = [0]\n"
    )
    arguments = ["--recipe", tmp_path / "deeper.toml", "--data", tmp_path / "stories.txt"]
    assert main(["train", *map(str, arguments), "--out", str(tmp_path / "run")]) == 0
    begun = load_checkpoint(
        tmp_path / "run" / "checkpoint", f"{SNAPSHOTS}/{snapshot_name(0)}"
    ).model
    expected = build_model(wanted)
    grow(small, expected)
    for one, other in zip(begun.parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, other.half().float())


def test_a_model_with_more_tokens_computes_the_same_for_those_it_knew():
    known, tokenizer = characters(["bd"], 6), characters(["abcde"], 9)
    small, model = (built(seed, n_layers=2, **MODERN, vocab_size=n) for seed, n in ((0, 6), (1, 9)))
    add_tokens(small, known, model, tokenizer)
    before = small.read(Rows(torch.tensor([known.encode("bdb")]), torch.ones(1, 3).bool()))
    now = model.read(Rows(torch.tensor([tokenizer.encode("bdb")]), torch.ones(1, 3).bool()))
    torch.testing.assert_close(now[..., [*range(4), *tokenizer.encode("bd")]], before)
    with pytest.raises(ValueError, match="'b'"):
        add_tokens(small, known, model, characters(["acdef"], 9))
    with pytest.raises(ValueError, match="only vocab_size"):
        add_tokens(small, known, built(1, n_layers=3, **MODERN, vocab_size=9), tokenizer)
