"""What a model costs: operations as torch counts them, bytes as a cache holds them, and time."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from explorer.analysis.cases import ResultRow
from explorer.analysis.cases.design import SAME, design, options
from explorer.analysis.model.cost import best_time, cost
from explorer.exhibits.decoding.caching import held_bytes
from explorer.library import LoadedModel
from explorer.runs.passes import walked
from explorer.runs.rerun import rows_of, written_tokens
from explorer.runs.run import run
from explorer.runs.trace import Trace, trace
from models.cache import KVCache
from models.config import ModelConfig
from models.hooks import LOGITS, Record, visiting
from models.rows import Rows
from models.transformer import build_model

TEXT = "The cat sat on the mat."


def test_the_least_of_several_times_is_taken():
    ticks = iter([0.0, 3.0, 10.0, 11.0, 20.0, 22.0])
    ran = []
    assert best_time(lambda: ran.append(1), 3, clock=lambda: next(ticks)) == 1.0
    assert len(ran) == 4  # once for warming up


@pytest.mark.parametrize(
    "changes",
    [
        {"n_encoder_layers": 3},
        {"n_kv_heads": 2, "ffn": "swiglu", "bias": False},
        {"family": "decoder-only", "tie_embeddings": False},
        {"family": "encoder-only", "lm_head": False},
        {"family": "decoder-only", "head_dim": 10},
        {"family": "decoder-only", "n_experts": 5, "n_active": 2, "d_shared": 14},
        {"family": "encoder-only", "d_embed": 12, "head_net": True},
    ],
)
def test_operations_are_those_that_torch_counts(changes):
    config = ModelConfig(
        vocab_size=50, d_model=24, n_layers=2, n_heads=4, d_ff=20, dropout=0.0, **changes
    )
    model = build_model(config).eval()
    tokens = torch.zeros(1, 9, dtype=torch.long)
    record = Record(lambda name: name.endswith("hook_pattern"))  # the path that is written out
    with FlopCounterMode(display=False) as counter, torch.no_grad(), visiting(record):
        model.read(Rows(tokens, src=tokens if config.reads_source else None))
    counted = cost(config, 9)
    assert counted.linear_flops + counted.attention_flops == counter.get_total_flops()
    assert cost(config, 18).attention_flops == 4 * cost(config, 9).attention_flops
    pattern = next(iter(record.activations.values()))
    assert cost(config, 9).pattern_bytes == pattern.numel() * 4
    assert cost(config, 9).weight_bytes == 4 * sum(p.numel() for p in model.parameters())
    output = (config.width * 50 + 24 * 12 * config.head_net) * config.lm_head
    assert cost(config, 9, unembeds=False).linear_flops == counted.linear_flops - 18 * output
    with pytest.raises(ValueError, match="at least one token"):
        cost(config, 0)


def test_the_cache_holds_what_is_said(translator, writer):
    tokens = torch.zeros(1, 9, dtype=torch.long)
    held = KVCache(2)
    with torch.inference_mode():
        writer.model.read(Rows(tokens), cache=held)
    assert cost(writer.config, 9).cache_bytes == held_bytes(held)
    held = KVCache(2)
    with torch.inference_mode():
        translator.model.read(Rows(tokens, src=tokens), cache=held)
    assert cost(translator.config, 9).cache_bytes == held_bytes(held)


# Choices exchanged in a model: each against torch, the formula, or a model built that way.
def swapped(loaded: LoadedModel, traced: Trace) -> dict[tuple[str, str], ResultRow]:
    rows, tried = walked(design(loaded, traced)).rows, options(loaded.config)
    return {(each.choice, each.name): row for each, row in zip(tried, rows, strict=True)}


def kinds(found: dict[tuple[str, str], ResultRow]) -> dict[tuple[str, str], str]:
    return {option: row.outcomes[0][0] for option, row in found.items()}


@pytest.fixture(scope="module")
def before(translator: LoadedModel) -> Trace:
    return trace(translator, TEXT)


@pytest.fixture(scope="module")
def found(translator: LoadedModel, before: Trace) -> dict[tuple[str, str], ResultRow]:
    return swapped(translator, before)


def test_of_each_choice_the_model_has_one_option_and_the_others_do_what_they_say(
    translator, before, found
):
    kind = kinds(found)
    own = [choice for (choice, _), each in kind.items() if each == "own"]
    assert sorted(own) == sorted({choice for choice, _ in kind} - {"tying"})  # not tied here
    for harmful in (
        ("scale", "d_model"), ("scale", "none"),
        ("placement", "pre"), ("activation", "gelu"), ("positions", "none"),
        ("positions", "halves"), ("embedding", "plain"), ("bias", "without"),
        ("dropout", "weights"),
        ("dropout", "inner"), ("dropout", "outer"), ("dropout", "embedding"),
    ):  # fmt: skip
        assert found[harmful].values[0] > SAME, harmful
        assert kind[harmful] == ("changed" if found[harmful].values[2] < 1 else "moved"), harmful
    numbers = walked(design(translator, before)).numbers
    counts = {name: [*kind.values()].count(name) for name in ("same", "moved", "changed")}
    assert {name: numbers[name] for name in counts} == counts
    assert numbers["count"] == sum(counts.values())
    costs = {option: row.values[1] for option, row in found.items() if kind[option] in counts}
    worst = max(costs, key=costs.__getitem__)
    assert (numbers["option"], numbers["loss"]) == (found[worst].of, costs[worst])
    assert found
    assert np.array_equal(trace(translator, TEXT).logits, before.logits)


@pytest.mark.parametrize(
    ("option", "changes"),
    [
        (("placement", "pre"), {"norm_placement": "pre"}),
        (("placement", "sublayer"), {"norm_placement": "sublayer"}),
        (("activation", "gelu"), {"ffn": "gelu"}),
        (("embedding", "plain"), {"scale_embeddings": False}),
        (("positions", "rotary"), {"positions": "rotary"}),
        (("positions", "none"), {"positions": "none"}),
        (("bias", "without"), {"bias": False}),
    ],
)
def test_a_swap_is_the_model_that_is_built_so_with_the_same_weights(
    translator, before, found, option, changes
):
    built = build_model(replace(translator.config, **changes)).eval()
    names = built.state_dict().keys()
    built.load_state_dict({k: v for k, v in translator.model.state_dict().items() if k in names})
    logits = run(built, rows_of(before), {LOGITS})[LOGITS][0].numpy()
    n = len(written_tokens(before))
    change = float(np.abs(logits - before.logits)[:n].max())
    assert found[option].values[0] == pytest.approx(change, abs=2e-5)
    more = sum(p.numel() for p in built.parameters())
    more -= sum(p.numel() for p in translator.model.parameters())
    assert found[option].values[3] == more


def test_choices_of_tied_and_of_other_models(tiny, writer):
    tied = tiny("tied", tie_embeddings=True)
    found = swapped(tied, trace(tied, TEXT))
    assert kinds(found)["tying", "tied"] == "own"
    assert kinds(found)["tying", "apart"] == "same"
    assert found["tying", "apart"].values[3] == tied.config.vocab_size * tied.config.d_model
    kind = kinds(swapped(writer, trace(writer, TEXT)))
    assert kind["placement", "pre"] == kind["final", "with"] == "own"
    modern = tiny("modern", family="decoder-only", norm="rmsnorm", ffn="swiglu", positions="rotary",
                  bias=False)  # fmt: skip
    assert not {option.choice for option in options(modern.config)} & {"activation", "bias"}
    silent = tiny("silent", family="encoder-only", lm_head=False)
    assert walked(design(silent, trace(silent, TEXT))).why == ("no_logits",)
    with pytest.raises(ValueError, match="the trace was made by"):
        walked(design(writer, trace(modern, TEXT)))


@pytest.mark.parametrize(
    ("changes", "choice", "names"),
    [
        ({"score_divisor": 1.0}, "scale", ["none"]),
        ({"score_divisor": 1.7}, "scale", ["own"]),
        ({}, "scale", ["d_head"]),
        ({"positions": "t5"}, "positions", ["t5"]),
        ({"positions": "learned"}, "positions", ["learned"]),
        ({"ffn": "silu"}, "activation", ["silu"]),
        # Blocks without one place of the norm are not asked for it.
        ({"norm_placement": "pre", "parallel": True}, "placement", []),
        ({"norm_placement": "pre", "out_norms": True}, "placement", []),
    ],
)
def test_what_the_model_has_is_one_of_the_options(tiny, changes, choice, names):
    config = tiny("own", **changes).config
    asked = [each for each in options(config) if each.choice == choice]
    assert [each.name for each in asked if each.own(config)] == names
    assert bool(asked) == bool(names)
