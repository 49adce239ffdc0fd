"""What a model costs: operations as torch counts them, bytes as a cache holds them, and time."""

import itertools

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from explorer.analysis.machine.cost import best_time, cost, measure_passes, ways
from explorer.exhibits.decoding.caching import held_bytes
from explorer.library import LoadedModel
from explorer.runs.passes import finished, letting
from explorer.runs.trace import trace
from models.cache import KVCache
from models.config import ModelConfig
from models.hooks import Record, visiting
from models.rows import Rows
from models.transformer import build_model

TEXT = "The cat sat on the mat."


def test_the_least_of_several_times_is_taken() -> None:
    ticks = iter([0.0, 3.0, 10.0, 11.0, 20.0, 22.0])
    ran = []
    assert best_time(lambda: ran.append(1), 3, clock=lambda: next(ticks)) == 1.0
    assert len(ran) == 4  # once for warming up


def _clock():
    """A clock that is a second further each time it is looked at."""
    ticks = itertools.count()
    return lambda: float(next(ticks))


def test_writing_reads_more_without_a_cache_and_gives_the_same(translator, writer) -> None:
    for loaded in (translator, writer):
        found = finished(measure_passes(loaded, trace(loaded, TEXT), 12, clock=_clock()))
        assert [(p.steps, p.tokens, p.seconds) for p in found.passes] == [
            (1, 12, 1.0), (12, 78, 12.0), (12, 12, 12.0),
        ]  # fmt: skip
        assert found.difference < 1e-3
    with pytest.raises(ValueError, match="reads up to 160"):
        finished(measure_passes(translator, trace(translator, TEXT), 161))
    with pytest.raises(ValueError, match="the trace was made by"):
        finished(measure_passes(writer, trace(translator, TEXT), 4))


def test_what_others_compute_between_two_passes_is_not_counted(writer: LoadedModel) -> None:
    now, others = [0.0], [0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    def let_others() -> None:
        others[0] += 1
        now[0] += 100.0

    with letting(let_others):
        found = finished(measure_passes(writer, trace(writer, TEXT), 12, clock=clock))
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
    ],
)
def test_operations_are_those_that_torch_counts(changes: dict[str, object]) -> None:
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
    table = 2 * 9 * 24 * 50 if config.lm_head else 0
    assert cost(config, 9, unembeds=False).linear_flops == counted.linear_flops - table
    with pytest.raises(ValueError, match="at least one token"):
        cost(config, 0)


def test_the_cache_holds_what_is_said(translator: LoadedModel, writer: LoadedModel) -> None:
    tokens = torch.zeros(1, 9, dtype=torch.long)
    held = KVCache(2)
    with torch.inference_mode():
        writer.model.read(Rows(tokens), cache=held)
    assert cost(writer.config, 9).cache_bytes == held_bytes(held)
    held = KVCache(2)
    with torch.inference_mode():
        translator.model.read(Rows(tokens, src=tokens), cache=held)
    assert cost(translator.config, 9).cache_bytes == held_bytes(held)


def test_ways_between_the_ends_of_a_text() -> None:
    """The path of each is counted by the same rule: how many computations, one after another, lead
    from the first token to the last vector. None: the first token has had no effect on it yet.
    """
    n = 9

    def computed(*inputs: int | None) -> int | None:
        paths = [path for path in inputs if path is not None]
        return 1 + min(paths) if paths else None

    tokens: list[int | None] = [0, *[None] * (n - 1)]
    state: int | None = None
    for token in tokens:
        state = computed(state, token)
    layer = tokens
    while layer[-1] is None:
        ends = [None, *layer, None]
        layer = [computed(*ends[at : at + 3]) for at in range(n)]
    assert {way.kind: way.path for way in ways(n)} == {
        "attention": computed(*tokens),
        "recurrent": state,
        "convolution": layer[-1],
    }
    assert [(way.kind, way.steps) for way in ways(n)] == [
        ("attention", 1),
        ("recurrent", 9),
        ("convolution", 8),
    ]
    assert ways(1)[2].path == 1
    with pytest.raises(ValueError, match="length is 0"):
        ways(0)
