"""What a model costs: operations as torch counts them, bytes as a cache holds them, and time."""

import copy
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from explorer.analysis.cases import Result, ResultRow, attention as reach
from explorer.analysis.cases.counting import nearest, tied_logits
from explorer.analysis.cases.design import SAME, design, every_option, options
from explorer.analysis.model.cost import best_time, cost, measure_passes
from explorer.exhibits.decoding.caching import held_bytes
from explorer.library import LoadedModel, open_model
from explorer.numerics import cosines
from explorer.runs.passes import letting, walked
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


def _clock():
    """A clock that is a second further each time it is looked at."""
    ticks = itertools.count()
    return lambda: float(next(ticks))


def test_writing_reads_more_without_a_cache_and_gives_the_same(translator, writer):
    for loaded in (translator, writer):
        found = walked(measure_passes(loaded, trace(loaded, TEXT), 12, clock=_clock()))
        assert [(p.steps, p.tokens, p.seconds) for p in found.passes] == [
            (1, 12, 1.0), (12, 78, 12.0), (12, 12, 12.0),
        ]  # fmt: skip
        assert found.difference < 1e-3
    with pytest.raises(ValueError, match="reads up to 160"):
        walked(measure_passes(translator, trace(translator, TEXT), 161))
    with pytest.raises(ValueError, match="the trace was made by"):
        walked(measure_passes(writer, trace(translator, TEXT), 4))


def test_what_others_compute_between_two_passes_is_not_counted(writer):
    now, others = [0.0], [0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    def let_others() -> None:
        others[0] += 1
        now[0] += 100.0

    with letting(let_others):
        found = walked(measure_passes(writer, trace(writer, TEXT), 12, clock=clock))
        assert best_time(lambda: None, 3, clock) == 1.0
    assert [each.seconds for each in found.passes] == [1.0, 12.0, 12.0]
    assert others[0] > 24


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


def vectors(n: int, width: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(n, width, generator=generator, dtype=torch.float64)


def test_a_linear_chain_by_hand():
    """h_t = x_t + 0.5 h_{t-1}: the gradient of the last state halves with every token."""

    def last(x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(2, dtype=x.dtype)
        for row in x:
            h = row + h / 2
        return h

    norms = reach.gradient_norms(last, vectors(4, 2), torch.tensor([0.6, 0.8], dtype=torch.float64))
    np.testing.assert_allclose(norms, [1, 0.5, 0.25, 0.125])


def test_gradients_of_recurrence_and_attention_are_those_of_their_formulas():
    torch.manual_seed(1)
    x, u = vectors(5), torch.eye(4, dtype=torch.float64)[0]
    torch.manual_seed(1)
    norms = reach.gradient_norms(reach.recurrent(6, 4), x, u)
    torch.manual_seed(1)
    net = nn.RNN(6, 4, batch_first=True).double().requires_grad_(False)
    states = net(x[None])[0][0]
    row = u  # u D_n W_h D_{n-1} W_h ..., and W_x at the end
    for distance in range(5):
        row = row * (1 - states[4 - distance] ** 2)
        assert norms[distance] == pytest.approx(float((row @ net.weight_ih_l0).norm()))
        row = row @ net.weight_hh_l0
    torch.manual_seed(1)
    x, u = vectors(5), torch.tensor([0.6, 0, 0.8], dtype=torch.float64)
    torch.manual_seed(1)
    norms = reach.gradient_norms(reach.attention(6, 3), x, u)
    torch.manual_seed(1)
    w_q, w_k, w_v = (nn.Linear(6, 3).double().requires_grad_(False) for _ in range(3))
    q, k, v = w_q(x[-1]), w_k(x), w_v(x)
    weights = (k @ q / 3**0.5).softmax(-1)
    z = weights @ v
    for j in range(4):  # all but the last, which is the query too
        inner = w_v.weight + torch.outer(v[j] - z, q @ w_k.weight) / 3**0.5
        assert norms[4 - j] == pytest.approx(float((weights[j] * u @ inner).norm()))


def test_the_far_gradient_is_that_of_attention_and_a_chain_is_fitted(translator, monkeypatch):
    traced = trace(translator, TEXT)
    rows = {row.name: row.values for row in reach.reach(traced).rows}
    # Of default weights, W_h multiplies a random vector by about 1 / sqrt 3: hence below 0.8.
    assert rows["net_recurrent"][1] < rows["net_orthogonal"][1] < 0.8 < rows["net_attention"][1]
    x = vectors(20).numpy()
    nets = reach.reaches(x)
    assert all(norms.shape == (len(reach.SEEDS), 20) for norms in nets.values())
    # The scale of what is read decides nothing, nor does the order of calls.
    again = reach.reaches(5 * x + 1)
    np.testing.assert_allclose(again["attention"], nets["attention"], rtol=1e-4)
    chains = {
        "attention": np.ones((2, 5)),
        "recurrent": np.stack([0.5 ** np.arange(5)] * 2),
        "orthogonal": np.ones((2, 5)),
    }
    monkeypatch.setattr(reach, "reaches", lambda x: chains)
    found = reach.reach(traced)
    assert found.rows[1].values == pytest.approx((5, 0.5, 0.125))  # distance 4 over distance 1
    assert found.rows[0].values == pytest.approx((1, 1, 1))
    assert found.verdict == "depends"  # one of the nets does not fade


def test_the_longer_text_is_read_without_padding(translator):
    long = trace(translator, "The cat sat on the mat because it was warm there.", "猫", pads=3)
    n = int(long.src_valid.sum())
    assert n > reach.LEAST
    embedded = long.activations[next(s for s in long.stacks if s.stream == "src").hook("embed")]
    np.testing.assert_array_equal(reach.read_vectors(long), embedded[:n])
    short = trace(translator, "Cat", "猫")
    n = max(len(short.src_tokens), len(short.tgt_tokens))
    found = reach.read_vectors(short)
    assert len(found) == reach.LEAST
    np.testing.assert_array_equal(found[n], found[0])


def test_cosines_and_neighbours_by_hand():
    rows = np.array([[1.0, 0], [3, 4], [0, 2], [-1, 0], [0, 0]])
    np.testing.assert_allclose(cosines(rows, np.tile([2.0, 0], (5, 1))), [1, 0.6, 0, -1, 0])
    assert nearest(rows, 0, 2).tolist() == [1, 2]
    assert nearest(rows, 2, 1).tolist() == [1]


def numbers_of(found: Result) -> dict[str, tuple[float, ...]]:
    return {row.name: row.values for row in found.rows}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only"])
@pytest.mark.parametrize("final_norm", [True, False])
def test_a_tied_logit_is_the_product_with_the_embedding(tiny, tied, family, final_norm):
    loaded = tiny("ends", family=family, tie_embeddings=tied, final_norm=final_norm)
    found = numbers_of(tied_logits(loaded, trace(loaded, TEXT)))
    assert (found["dot_error"][0] < 1e-4) == tied
    # A tied row is the word's own; untied, random ones have nothing to do with each other.
    assert (found["same_row"][0] == pytest.approx(1)) == tied
    assert abs(found["same_row"][1]) < 0.2


def test_what_is_between_product_and_logit_is_counted(tiny):
    """BERT's matrix and norm before its output, a bias of every word, Gemma 2's cap."""
    more = {"head_net": True, "unembed_bias": True, "logit_cap": 2.0, "tie_embeddings": True}
    loaded = tiny("more", family="encoder-only", ffn="gelu", **more)
    with torch.no_grad():
        loaded.model.unembed.bias.copy_(torch.linspace(-1, 1, loaded.config.vocab_size))
    assert numbers_of(tied_logits(loaded, trace(loaded, TEXT)))["dot_error"][0] < 1e-4
    trained = open_model("twin-right")
    found = tied_logits(trained, trace(trained, "I love you."))
    assert numbers_of(found)["near_rank"][0] < 0.1
    assert found.verdict == "true"
    random = tiny("random", tie_embeddings=False)  # its two matrices were drawn apart
    found = tied_logits(random, trace(random, TEXT))
    assert 0.3 < numbers_of(found)["near_rank"][0] < 0.7
    assert found.verdict != "true"
    silent = tiny("silent", family="encoder-only", lm_head=False)
    found = tied_logits(silent, trace(silent, TEXT))
    assert (found.verdict, found.why) == ("depends", ("no_logits",))
    assert np.isnan(found.rows[0].values).all()


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
    assert kind["fill", "e9"] == kind["fill", "e4"] == "same"  # only written otherwise
    for harmful in (
        ("scale", "d_model"), ("scale", "none"), ("fill", "after"), ("sense", "blocked"),
        ("placement", "pre"), ("norm", "unbiased"), ("activation", "gelu"), ("positions", "none"),
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
        (("norm", "tiny"), {"norm_eps": 1e-12}),
        (("norm", "rms"), {"norm": "rmsnorm"}),
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


def test_the_norms_written_by_hand(translator, before):
    x = torch.randn(3, 5, 24, generator=torch.Generator().manual_seed(1))
    norm = translator.model.get_submodule("encoder.blocks.0.attn_norm")
    made = {}
    for each in every_option():
        if each.choice == "norm":
            other = copy.deepcopy(translator.model)
            each.swap(other, rows_of(before))
            made[each.name] = other.get_submodule("encoder.blocks.0.attn_norm")(x)
    centred, scale = x - x.mean(-1, keepdim=True), (norm.weight, norm.bias)
    std, biased = x.std(-1, keepdim=True), x.std(-1, correction=0, keepdim=True)
    torch.testing.assert_close(made["tiny"], nn.functional.layer_norm(x, (24,), *scale, eps=1e-12))
    torch.testing.assert_close(made["both"], scale[0] * centred / (std + 1e-6) + scale[1])
    torch.testing.assert_close(made["outside"], scale[0] * centred / (biased + norm.eps) + scale[1])
    without_bias = (made["unbiased"] - scale[1]) / (made["inside"] - scale[1])
    torch.testing.assert_close(
        without_bias, torch.full_like(x, math.sqrt(23 / 24)), rtol=1e-3, atol=0
    )


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
    assert not {option.choice for option in options(modern.config)} & {"norm", "activation", "bias"}
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
