"""Claims about time and memory, measured live on this machine."""

import math
from functools import partial

import torch
from torch import Tensor, nn

from explorer.analysis.blocks.norms_by_hand import layer_norm_forward
from explorer.analysis.claims.card import Claim, Finding, FractionDone, ResultRow, curve_of, judged
from explorer.analysis.machine.cost import best_time, measure_passes
from explorer.analysis.machine.parameters import numbers_of, on_paper
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from models.attention import Attention, attend
from models.norms import LayerNorm, RMSNorm

MEBI = 1024 * 1024
LENGTHS = (32, 128, 512, 1024)
N_TOKENS = 64


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


def parallel(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """The reader's model over 64 tokens: at once, one by one, one by one with the cache."""
    n_tokens = min(N_TOKENS, traced.config.n_ctx)
    found = measure_passes(loaded, traced, n_tokens, progress)
    rows = tuple(ResultRow(p.name, (p.steps, p.tokens, 1000 * p.seconds)) for p in found.passes)
    # One step against n is true by construction; the work is the same only with the cache.
    more = found.passes[1].tokens > found.passes[0].tokens
    verdict = judged(not more, false=found.difference >= 1e-3)
    columns = ("steps", "tokens_read", "milliseconds")
    return Finding(verdict, columns, rows, bars="milliseconds")


def quadratic(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """The bytes of 8 heads' patterns, actually computed, at lengths that double."""
    rows, before = [], math.nan
    for step, length in enumerate((64, 128, 256, 512, 1024)):
        size = _pattern_of(torch.randn(1, length, 64), 8) / MEBI
        rows.append(ResultRow("tokens", (size, size / before), of=str(length)))
        before = size
        progress((step + 1) / 5)
    fourfold = all(row.values[1] == 4 for row in rows[1:])
    verdict = judged(fourfold, false=not fourfold)
    columns = ("mebibytes", "times_half")
    only = [ResultRow(row.name, row.values[:1], row.of) for row in rows]
    curve = curve_of(only, columns[:1], "tokens_axis", "mebibytes")
    return Finding(verdict, columns, tuple(rows), curve)


COST = (
    Claim("rms_speed", "cost", rms_speed, own=False, slow=True),
    Claim("fused_speed", "cost", fused_speed, own=False, slow=True),
    Claim("free_heads", "cost", free_heads),
    Claim("parallel", "cost", parallel, slow=True),
    Claim("quadratic", "cost", quadratic, own=False),
)
