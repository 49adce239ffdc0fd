"""Claims about time and memory, measured live on this machine."""

import itertools
import threading
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from explorer.analysis.blocks.norms_by_hand import layer_norm_forward
from explorer.analysis.claims.card import (
    Claim,
    Finding,
    FractionDone,
    ResultRow,
    curve_of,
    judged,
    part_of,
)
from explorer.analysis.machine.cost import Passes, best_time, measure_passes
from explorer.analysis.machine.parameters import numbers_of, on_paper
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from models.attention import Attention, attend
from models.norms import LayerNorm, RMSNorm

MEBI = 1024 * 1024
LENGTHS = (32, 128, 512, 1024)
N_TOKENS, TRIES = 64, 3
PEAK_LENGTHS = (256, 512, 1024)
_PROFILING = threading.Lock()


def rms_speed(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """Both norms, written out and as torch's own functions, on 4 x 256 tokens of width 1024."""
    x, weight, bias = torch.randn(4, 256, 1024), torch.ones(1024), torch.zeros(1024)
    layer, rms = LayerNorm(1024), RMSNorm(1024)
    ways = {
        "layer_norm_written": lambda: layer_norm_forward(x, weight, bias, 1e-5),
        "layer_norm_fused": lambda: layer(x),
        "rms_norm_written": lambda: rms(x),
        "rms_norm_torch": lambda: nn.functional.rms_norm(x, (1024,), weight, 1e-6),
    }
    times = {}
    with torch.inference_mode():
        for step, (name, way) in enumerate(ways.items()):
            times[name] = best_time(way, 9)
            progress((step + 1) / len(ways))
    ratios = [
        times["layer_norm_written"] / times["rms_norm_written"],
        times["layer_norm_fused"] / times["rms_norm_torch"],
    ]
    said = [1.05 < ratio < 1.25 for ratio in ratios]
    verdict = judged(all(said), false=max(ratios) < 1)
    quickest = min(times.values())
    rows = tuple(ResultRow(name, (1000 * each, each / quickest)) for name, each in times.items())
    return Finding(verdict, ("milliseconds", "times_quickest"), rows, bars="milliseconds")


def fused_speed(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """Attention written out, torch's operator, and the operator on three axes instead of four."""
    rows, fused = [], nn.functional.scaled_dot_product_attention
    with torch.inference_mode():
        for step, length in enumerate(LENGTHS):
            q, k, v = torch.randn(3, 1, 4, length, 64)
            three = q[0], k[0], v[0]
            ways = (partial(attend, q, k, v), partial(fused, q, k, v), partial(fused, *three))
            times = tuple(1000 * best_time(way, 5) for way in ways)
            rows.append(ResultRow("tokens", times, of=str(length)))
            progress((step + 1) / len(LENGTHS))
    large = [row.values[0] / quick for row in rows[2:] for quick in row.values[1:]]
    faster = [ratio > 1.1 for ratio in large]
    verdict = judged(all(faster), false=not any(faster))
    columns = ("by_hand", "four_axes", "three_axes")
    curve = curve_of(rows, columns, "tokens_axis", "milliseconds", log_y=True)
    return Finding(verdict, columns, tuple(rows), curve)


def free_heads(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """Width 512 on 512 tokens with 1 to 8 heads: parameters, and the patterns' bytes."""
    rows = []
    x = torch.randn(1, 512, 512)
    for n_heads in (1, 2, 4, 8):
        module = on_paper(partial(Attention, 512, n_heads))
        rows.append(
            ResultRow("heads", (numbers_of(module), _pattern_of(x, n_heads) / MEBI), str(n_heads))
        )
    site = traced.sites[-1]
    own = numbers_of(loaded.model.get_submodule(site.name))
    rows.append(ResultRow("own_site", (own, traced.pattern(site.name).nbytes / MEBI)))
    same = len({row.values[0] for row in rows[:4]}) == 1
    grows = rows[3].values[1] > 7 * rows[0].values[1]
    verdict = judged(same and not grows, false=not same)
    return Finding(verdict, ("parameters", "mebibytes"), tuple(rows), bars="mebibytes")


def _pattern_of(x: Tensor, n_heads: int) -> int:
    """Bytes of the pattern that attention over x [batch, pos, d] makes with so many heads."""
    heads = x.reshape(*x.shape[:2], n_heads, -1).transpose(1, 2)
    _, pattern = attend(heads, heads, heads)
    return pattern.numel() * pattern.element_size()


def parallel(
    loaded: LoadedModel,
    traced: Trace,
    progress: FractionDone,
    measure: Callable[..., Passes] = measure_passes,
) -> Finding:
    """The reader's model over 64 tokens: at once, one by one, one by one with the cache.

    Steps and tokens are counted as the model reads them, times are those of three tries.
    "True" needs the same logits from all of them, from one step and from n.
    """
    n_tokens = min(N_TOKENS, traced.config.n_ctx)
    tries = [
        measure(loaded, traced, n_tokens, part_of(progress, turn, TRIES)) for turn in range(TRIES)
    ]
    rows = []
    for passes in zip(*(each.passes for each in tries), strict=True):
        times = [1000 * each.seconds for each in passes]
        first = passes[0]
        values = first.steps, first.tokens, float(np.median(times)), float(np.ptp(times))
        rows.append(ResultRow(first.name, values))
    once, *one_by_one = rows
    same = max(each.difference for each in tries) < 1e-3
    fits = [row.values[0] == n_tokens and once.values[0] == 1 for row in one_by_one]
    verdict = judged(all(fits) and same, false=not any(fits))
    slow, quick = one_by_one
    numbers = {
        "n": n_tokens, "once": once.values[0], "slow_steps": slow.values[0],
        "quick_steps": quick.values[0], "read": once.values[1], "slow_read": slow.values[1],
        "quick_read": quick.values[1], "slow": slow.values[2] / once.values[2],
        "quick": quick.values[2] / once.values[2],
        "difference": max(each.difference for each in tries),
    }  # fmt: skip
    columns = ("steps", "tokens_read", "milliseconds", "milliseconds_range")
    return Finding(
        verdict, columns, tuple(rows), bars="milliseconds", why=(verdict,), numbers=numbers
    )


KERNELS: dict[str, Callable[[Tensor, Tensor, Tensor], object]] = {
    "by_hand": attend,
    "four_axes": nn.functional.scaled_dot_product_attention,
    "three_axes": lambda q, k, v: nn.functional.scaled_dot_product_attention(q[0], k[0], v[0]),
}


def quadratic(
    loaded: LoadedModel,
    traced: Trace,
    progress: FractionDone,
    kernels: Mapping[str, Callable[[Tensor, Tensor, Tensor], object]] = KERNELS,
) -> Finding:
    """Peak memory of attention with 4 heads of 32 features, written out and by torch's operator.

    It grows with the square where four times the length takes more than eight times the memory.
    """
    rows = []
    with torch.inference_mode():
        for length in PEAK_LENGTHS:
            q, k, v = torch.randn(3, 1, 4, length, 32)
            sizes = [peak_bytes(partial(way, q, k, v)) / MEBI for way in kernels.values()]
            rows.append(ResultRow("tokens", tuple(sizes), of=str(length)))
    times = [large / small for small, large in zip(rows[0].values, rows[-1].values, strict=True)]
    squared = [each > 8 for each in times]
    verdict = judged(all(squared), false=not any(squared))
    rows.append(ResultRow("four_times_as_long", tuple(times)))
    columns = tuple(kernels)
    curve = curve_of(rows[:-1], columns, "tokens_axis", "peak", log_y=True)
    numbers = dict(zip(columns, times, strict=True))
    return Finding(verdict, columns, tuple(rows), curve, why=(verdict,), numbers=numbers)


def peak_bytes(function: Callable[[], object]) -> int:
    """The most that torch held at once of what a call allocated on the CPU, buffers of kernels too.

    torch has one profiler in a process, so calls wait for each other.
    """
    with _PROFILING, profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        function()
    assert profiled.profiler is not None
    events = [e for e in profiled.profiler.kineto_results.events() if e.name() == "[memory]"]
    sizes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return max(itertools.accumulate(sizes), default=0)


TOKENS = (1, 32, 512)


def _apart(three: list[nn.Linear], x: Tensor) -> list[Tensor]:
    return [each(x) for each in three]


def _fused(one: nn.Linear, x: Tensor) -> tuple[Tensor, ...]:
    return one(x).chunk(3, dim=-1)


def fused_qkv(
    loaded: LoadedModel,
    traced: Trace,
    progress: FractionDone,
    seconds: Callable[[Callable[[], object]], float] = best_time,
) -> Finding:
    """Three projections of width 512 against one of 1536 for 1, 32 and 512 tokens; three tries.

    `seconds(function)` gives a time. Faster is by more than 5 % in every try.
    """
    rows, faster, numbers = [], [], {}
    three = [nn.Linear(512, 512) for _ in range(3)]
    one = nn.Linear(512, 3 * 512)
    with torch.inference_mode():
        for step, n_tokens in enumerate(TOKENS):
            x = torch.randn(1, n_tokens, 512)
            ratios, times = [], []
            for _ in range(TRIES):
                apart = seconds(partial(_apart, three, x))
                fused = seconds(partial(_fused, one, x))
                ratios.append(apart / fused)
                times.append((1000 * apart, 1000 * fused))
            mean = np.median(times, axis=0)
            values = (
                float(mean[0]),
                float(mean[1]),
                float(np.median(ratios)),
                float(np.ptp(ratios)),
            )
            rows.append(ResultRow("tokens", values, of=str(n_tokens)))
            numbers[f"ratio_{n_tokens}"] = float(np.median(ratios))
            faster.append(min(ratios) > 1.05)
            progress((step + 1) / len(TOKENS))
    verdict = judged(all(faster), false=not any(faster))
    columns = ("three_matrices", "one_matrix", "ratio", "ratio_range")
    return Finding(verdict, columns, tuple(rows), bars="ratio", why=(verdict,), numbers=numbers)


COST = (
    Claim("rms_speed", "cost", rms_speed, own=False, slow=True),
    Claim("fused_speed", "cost", fused_speed, own=False, slow=True),
    Claim("fused_qkv", "cost", fused_qkv, own=False, slow=True),
    Claim("free_heads", "cost", free_heads),
    Claim("parallel", "cost", parallel, slow=True),
    Claim("quadratic", "cost", quadratic, own=False),
)
