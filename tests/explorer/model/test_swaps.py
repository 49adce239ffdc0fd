"""Choices exchanged in a model: each against torch, the formula, or a model built that way."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from explorer.engine.jobs import walked
from explorer.exhibits.model.swaps import OPTIONS, SAME, Swapped, options, swapped
from explorer.library import LoadedModel
from explorer.runs.rerun import rows_of, written_tokens
from explorer.runs.run import run
from explorer.runs.trace import Trace, trace
from models.hooks import LOGITS
from models.transformer import build_model

TEXT = "The cat sat on the mat."


@pytest.fixture(scope="module")
def before(translator: LoadedModel) -> Trace:
    return trace(translator, TEXT)


@pytest.fixture(scope="module")
def found(translator: LoadedModel, before: Trace) -> dict[tuple[str, str], Swapped]:
    return {(each.choice, each.option): each for each in walked(swapped(translator, before))}


def test_every_choice_names_what_the_model_has(found) -> None:
    choices = {choice for choice, _ in found}
    own = [choice for (choice, _), each in found.items() if each.own]
    assert sorted(own) == sorted(choices - {"tying"})  # this one is not tied
    assert all(each.change == 0 for each in found.values() if each.own)


def test_what_is_only_written_otherwise_changes_nothing(found) -> None:
    for harmless in (("fill", "e9"), ("fill", "e4")):
        assert 0 <= found[harmless].change < SAME, harmless
        assert found[harmless].harmless
    for harmful in (
        ("scale", "d_model"), ("scale", "none"), ("fill", "after"), ("sense", "blocked"),
        ("placement", "pre"), ("norm", "unbiased"), ("activation", "gelu"), ("positions", "none"),
        ("positions", "halves"), ("embedding", "plain"), ("bias", "without"),
        ("dropout", "weights"),
        ("dropout", "inner"), ("dropout", "outer"), ("dropout", "embedding"),
    ):  # fmt: skip
        assert found[harmful].change > SAME, harmful
        assert not found[harmful].harmless
    assert found["sense", "blocked"].loss > 0 or found["sense", "blocked"].kept < 1


@pytest.mark.parametrize(
    ("option", "changes"),
    [
        (("placement", "pre"), {"norm_placement": "pre"}),
        (("placement", "sublayer"), {"norm_placement": "sublayer"}),
        (("activation", "gelu"), {"ffn": "gelu"}),
        (("embedding", "plain"), {"scale_embeddings": False}),
        (("positions", "rotary"), {"positions": "rotary"}),
        (("positions", "none"), {"positions": "none"}),
        (("norm", "tiny"), {"norm_eps": 1e-12}),
        (("norm", "rms"), {"norm": "rmsnorm"}),
        (("bias", "without"), {"bias": False}),
    ],
)
def test_a_swap_is_the_model_that_is_built_so_with_the_same_weights(
    translator, found, option, changes
) -> None:
    built = build_model(replace(translator.config, **changes)).eval()
    names = built.state_dict().keys()
    built.load_state_dict({k: v for k, v in translator.model.state_dict().items() if k in names})
    traced = trace(translator, TEXT)
    logits = run(built, rows_of(traced), {LOGITS})[LOGITS][0].numpy()
    n = len(written_tokens(traced))
    change = float(np.abs(logits - traced.logits)[:n].max())
    assert found[option].change == pytest.approx(change, abs=2e-5)
    more = sum(p.numel() for p in built.parameters())
    more -= sum(p.numel() for p in translator.model.parameters())
    assert found[option].parameters == more


def test_the_norms_written_by_hand(translator) -> None:
    x = torch.randn(3, 5, 24, generator=torch.Generator().manual_seed(1))
    norm = translator.model.get_submodule("encoder.blocks.0.attn_norm")
    made = {}
    for each in OPTIONS:
        if each.choice == "norm":
            holder = nn.Module()
            holder.norm = norm
            each.swap(holder)  # type: ignore[arg-type]
            made[each.name] = holder.norm(x)
    centred, scale = x - x.mean(-1, keepdim=True), (norm.weight, norm.bias)
    std, biased = x.std(-1, keepdim=True), x.std(-1, correction=0, keepdim=True)
    torch.testing.assert_close(made["tiny"], nn.functional.layer_norm(x, (24,), *scale, eps=1e-12))
    torch.testing.assert_close(made["both"], scale[0] * centred / (std + 1e-6) + scale[1])
    torch.testing.assert_close(made["outside"], scale[0] * centred / (biased + norm.eps) + scale[1])
    without_bias = (made["unbiased"] - scale[1]) / (made["inside"] - scale[1])
    torch.testing.assert_close(
        without_bias, torch.full_like(x, math.sqrt(23 / 24)), rtol=1e-3, atol=0
    )


def test_the_loaded_model_is_left_as_it_was(translator, before, found) -> None:
    assert found
    assert np.array_equal(trace(translator, TEXT).logits, before.logits)


def test_untying_adds_a_table_and_changes_nothing(tiny) -> None:
    tied = tiny("tied", tie_embeddings=True)
    found = {(e.choice, e.option): e for e in walked(swapped(tied, trace(tied, TEXT)))}
    assert found["tying", "tied"].own
    assert found["tying", "apart"].harmless
    assert found["tying", "apart"].parameters == tied.config.vocab_size * tied.config.d_model


def test_other_families(tiny, writer) -> None:
    chosen = walked(swapped(writer, trace(writer, TEXT)))
    assert {(e.choice, e.option) for e in chosen if e.own} >= {
        ("placement", "pre"),
        ("final", "with"),
    }
    modern = tiny("modern", family="decoder-only", norm="rmsnorm", ffn="swiglu", positions="rotary",
                  bias=False)  # fmt: skip
    names = {option.choice for option in options(modern.config)}
    assert not names & {"norm", "activation", "bias"}
    silent = tiny("silent", family="encoder-only", lm_head=False)
    assert walked(swapped(silent, trace(silent, TEXT))) == ()
    with pytest.raises(ValueError, match="the trace was made by"):
        walked(swapped(writer, trace(modern, TEXT)))


@pytest.mark.parametrize(
    ("changes", "choice", "name"),
    [
        ({"score_divisor": 1.0}, "scale", "none"),
        ({"score_divisor": 1.7}, "scale", "own"),
        ({}, "scale", "d_head"),
        ({"positions": "t5"}, "positions", "t5"),
        ({"positions": "learned"}, "positions", "learned"),
        ({"ffn": "silu"}, "activation", "silu"),
    ],
)
def test_what_the_model_has_is_one_of_the_options(tiny, changes, choice, name) -> None:
    config = tiny("own", **changes).config
    own = [each.name for each in options(config) if each.choice == choice and each.own(config)]
    assert own == [name]


@pytest.mark.parametrize("changes", [{"parallel": True}, {"out_norms": True}])
def test_a_block_without_one_place_of_the_norm_is_not_asked_for_it(tiny, changes) -> None:
    config = tiny("elsewhere", norm_placement="pre", **changes).config
    assert "placement" not in {each.choice for each in options(config)}
