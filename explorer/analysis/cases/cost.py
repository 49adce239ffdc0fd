"""Claims about sizes, time and memory, counted and measured live on this machine."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from explorer.analysis.blocks.norms import layer_norm_forward
from explorer.analysis.cases.case import Result, ResultRow, curve_of, judged, part_of
from explorer.analysis.cases.training import symbol_config
from explorer.analysis.model.cost import best_time
from explorer.analysis.model.parameters import numbers_of, on_paper
from explorer.library import LoadedModel
from explorer.runs.passes import Exclusive, Steps
from models.attention import Attention, attend
from models.norms import LayerNorm, RMSNorm

MEBI = 1024 * 1024
LENGTHS = (32, 128, 512, 1024)
TIMED = 5
PEAK_LENGTHS = (256, 512, 1024)
_PROFILING = Exclusive()
Way = Callable[[], object]
Seconds = Callable[[Way], float]


def mha_count(loaded: LoadedModel, count: Callable[[nn.Module], int] = numbers_of) -> Result:
    """Attention of width 64 with 1 to 16 heads, biases, shared keys; and the user's model."""
    sized = partial(symbol_config, d_model=64, bias=False)
    rows = []
    for n_heads in (1, 4, 16):
        module = on_paper(partial(Attention, sized(n_heads=n_heads)))
        rows.append(ResultRow("heads", (count(module), 4 * 64**2), of=str(n_heads)))
    biased = on_paper(partial(Attention, sized(bias=True)))
    rows.append(ResultRow("with_biases", (count(biased), 4 * 64**2 + 4 * 64)))
    shared = on_paper(partial(Attention, sized(n_heads=16, n_kv_heads=4)))
    rows.append(ResultRow("shared_keys", (count(shared), 4 * 64**2)))
    config = loaded.config
    own = count(loaded.model.get_submodule(loaded.sites[0].name))
    claim = 4 * config.d_model**2 + (4 * config.d_model if config.bias else 0)
    rows.append(ResultRow("own_attention", (own, claim)))
    same = [row.values[0] == row.values[1] for row in rows]
    return Result(
        judged(all(same), false=not any(same)),
        ("counted", "said"),
        rows,
        bars="counted",
        why=("matches", "why"),
        numbers={"same": sum(same), "count": len(same)},
    )


def interleaved(ways: Mapping[str, Way], seconds: Seconds) -> Steps[dict[str, np.ndarray]]:
    """The milliseconds of each implementation in TIMED tries, [try].

    Every try runs each of them in turn, so that a slow phase of the machine affects all equally.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TIMED):
        for name, way in ways.items():
            times[name].append(1000 * seconds(way))
        yield turn + 1, TIMED
    return {name: np.array(time) for name, time in times.items()}


def _middle(tries: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The median of several tries, and the largest minus the smallest."""
    return float(np.median(tries)), float(np.ptp(tries))


def rms_speed(seconds: Seconds = best_time) -> Steps[Result]:
    """Both norms, written out and as torch's own functions, on 4 x 256 tokens of width 1024."""
    x, weight, bias = torch.randn(4, 256, 1024), torch.ones(1024), torch.zeros(1024)
    layer, rms = LayerNorm(1024), RMSNorm(1024)
    ways: dict[str, Way] = {
        "layer_norm_written": lambda: layer_norm_forward(x, weight, bias, 1e-5),
        "layer_norm_fused": lambda: layer(x),
        "rms_norm_written": lambda: rms(x),
        "rms_norm_torch": lambda: nn.functional.rms_norm(x, (1024,), weight, 1e-6),
    }
    with torch.inference_mode():
        times = yield from interleaved(ways, seconds)
    ratios = {
        "written": times["layer_norm_written"] / times["rms_norm_written"],
        "torch": times["layer_norm_fused"] / times["rms_norm_torch"],
    }
    as_said = [tries.min() > 1 and 1.05 <= np.median(tries) <= 1.25 for tries in ratios.values()]
    verdict = judged(all(as_said), false=max(tries.max() for tries in ratios.values()) <= 1)
    middles = {name: _middle(tries) for name, tries in times.items()}
    quickest = min(median for median, _ in middles.values())
    rows = [ResultRow(name, (*pair, pair[0] / quickest)) for name, pair in middles.items()]
    numbers: dict[str, float] = {}
    for name, tries in ratios.items():
        ends = {f"{name}_low": tries.min(), f"{name}_high": tries.max()}
        numbers |= {name: _middle(tries)[0]} | ends
    columns = ("milliseconds", "timed_range", "times_quickest")
    return Result(verdict, columns, rows, bars="milliseconds", numbers=numbers)


def fused_speed(seconds: Seconds = best_time) -> Steps[Result]:
    """Attention written out, torch's operator, and the operator on three axes instead of four."""
    rows, faster = [], []
    with torch.inference_mode():
        for step, length in enumerate(LENGTHS):
            q, k, v = torch.randn(3, 1, 4, length, 64)
            ways = {name: partial(way, q, k, v) for name, way in KERNELS.items()}
            times = yield from part_of(interleaved(ways, seconds), step, len(LENGTHS))
            four, three = (times["by_hand"] / times[name] for name in ("four_axes", "three_axes"))
            if length >= 512:
                faster += [tries.min() > 1.05 for tries in (four, three)]
            medians = (_middle(tries)[0] for tries in times.values())
            values = (*medians, *_middle(four), *_middle(three))
            rows.append(ResultRow("tokens", values, of=str(length)))
    short, long = (row.values[3::2] for row in (rows[0], rows[-1]))  # the gains
    grows = all(np.greater(long, short))
    verdict = judged(all(faster) and grows, false=not any(faster))
    curve = curve_of(rows, tuple(KERNELS), "tokens_axis", "milliseconds", log_y=True)
    columns = (*KERNELS, "gain_four", "gain_four_range", "gain_three", "gain_three_range")
    return Result(verdict, columns, rows, curve)


KERNELS: dict[str, Callable[[Tensor, Tensor, Tensor], object]] = {
    "by_hand": attend,
    "four_axes": nn.functional.scaled_dot_product_attention,
    "three_axes": lambda q, k, v: nn.functional.scaled_dot_product_attention(q[0], k[0], v[0]),
}


def quadratic(
    kernels: Mapping[str, Callable[[Tensor, Tensor, Tensor], object]] = KERNELS,
) -> Result:
    """Peak memory of attention with 4 heads of 32 features, written out and by torch's operator."""
    rows = []
    with torch.inference_mode():
        for length in PEAK_LENGTHS:
            q, k, v = torch.randn(3, 1, 4, length, 32)
            sizes = [peak_bytes(partial(way, q, k, v)) / MEBI for way in kernels.values()]
            rows.append(ResultRow("tokens", tuple(sizes), of=str(length)))
    times = [large / small for small, large in zip(rows[0].values, rows[-1].values, strict=True)]
    squared = [time > 8 for time in times]
    verdict = judged(all(squared), false=not any(squared))
    rows.append(ResultRow("four_times_as_long", tuple(times)))
    columns = tuple(kernels)
    curve = curve_of(rows[:-1], columns, "tokens_axis", "peak", log_y=True)
    return Result(verdict, columns, rows, curve)


def peak_bytes(function: Callable[[], object]) -> int:
    """The peak memory that torch allocated on the CPU during a call, kernel buffers included.

    torch has one profiler per process, so concurrent calls wait for each other.
    """
    with (
        _PROFILING.held(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled,
    ):
        function()
    assert profiled.profiler is not None
    events = [e for e in profiled.profiler.kineto_results.events() if e.name() == "[memory]"]
    sizes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return max(itertools.accumulate(sizes), default=0)
