"""Claims about attention itself: variance, saturation, fills, the reference code, one head."""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.analysis.cell.scaling import Scaling, scaled, softmax_gradient
from explorer.analysis.claims.card import (
    Claim,
    Finding,
    FractionDone,
    ResultRow,
    curve_of,
    judged,
    part_of,
)
from explorer.analysis.clinic.card import causal_keep, decoder_self, fixed_scores, own_case
from explorer.analysis.clinic.fills import (
    hidden_with_a_billion,
    hidden_with_infinity,
    hidden_with_ten_thousand,
)
from explorer.analysis.heads.reading import entropy
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from explorer.seeding import seeded
from models.blocks import EncoderBlock
from models.config import ModelConfig
from models.hooks import AttentionSite
from models.masks import causal_mask
from models.positions import sinusoidal_table

WIDTHS = (4, 16, 64, 256, 1024)


def variance(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """Var(q . k) of independent N(0, 1) entries, of q = k, and of the reader's first head."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for step, width in enumerate(WIDTHS):
        q, k = torch.randn(2, 8000, width, generator=generator)
        rows.append(_variances("independent", (q * k).sum(-1), width))
        progress((step + 1) / len(WIDTHS))
    q = torch.randn(8000, 64, generator=generator)
    same = _variances("equal_vectors", (q * q).sum(-1), 64)
    site = traced.sites[0]
    scores = torch.tensor(traced.activations[site.hook("scores")])[0]
    if site.hook("bias") in traced.activations:  # the claim is about q . k alone
        scores = scores - torch.tensor(traced.activations[site.hook("bias")])[0]
    d_head = traced.config.d_head
    own = _variances("own_head", scores * math.sqrt(d_head), d_head)
    free = all(abs(row.values[0] / float(row.of) - 1) < 0.1 for row in rows)
    others = all(abs(row.values[1] - 1) < 0.1 for row in (same, own))
    verdict = judged(free and others, false=not free)
    columns = ("variance", "variance_scaled")
    curve = curve_of(rows, columns, "features", "variance")
    return Finding(verdict, columns, (*rows, same, own), curve)


def _variances(name: str, dots: Tensor, width: int) -> ResultRow:
    found = float(dots.double().var())
    return ResultRow(name, (found, found / width), of=str(width))


def saturation(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """Undivided and divided by sqrt(d_head): random scores of 1024 features, the reader's heads."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 400, 16, 1024, generator=generator)
    dots = (q[:, :1] @ k.transpose(1, 2))[:, 0]
    rows = [
        _softness(name, (dots / divisor).softmax(-1).numpy())
        for name, divisor in (("random_none", 1.0), ("random_head", 32.0))
    ]
    scalings: tuple[tuple[str, Scaling], ...] = (("own_none", "none"), ("own_scaled", "head"))
    for name, scaling in scalings:
        heads = [
            scaled(traced, site, head, scaling)
            for site in traced.sites
            for head in range(site.n_heads)
        ]
        seen = [head for head in heads if not math.isnan(head.top)]
        means = [np.mean([getattr(h, what) for h in seen] or [math.nan]) for what in _SOFT]
        rows.append(ResultRow(name, tuple(float(mean) for mean in means)))
    gone = rows[0].values[2] < 0.5 * rows[1].values[2] and rows[2].values[2] < rows[3].values[2]
    return Finding(judged(gone), _SOFT, tuple(rows), bars="gradient")


_SOFT = ("top", "entropy", "gradient")


def _softness(name: str, pattern: Float[np.ndarray, "row key"]) -> ResultRow:
    values = (pattern.max(1), entropy(pattern), softmax_gradient(pattern))
    return ResultRow(name, tuple(float(value.mean()) for value in values))


def fills(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """How much weight is left on hidden keys: the reader's scores, very low ones, an empty row."""
    ways = (hidden_with_ten_thousand, hidden_with_a_billion, hidden_with_infinity)
    fixed = fixed_scores()
    scores, keep = own_case(traced, decoder_self) or (fixed, causal_keep(fixed))
    low = torch.tensor([[[[-12000.0, -12001.0, 0.0]]]])
    last = torch.tensor([[[[True, True, False]]]])
    nothing = torch.zeros_like(last)
    rows = tuple(
        ResultRow(name, tuple(float((way(s, m) * ~m).sum(-1).max()) for way in ways))
        for name, s, m in (
            ("own_scores", scores, keep),
            ("low_scores", low, last),
            ("empty_row", low, nothing),
        )
    )
    clean = [value < 1e-6 for row in rows for value in row.values]  # NaN does not count as clean
    verdict = judged(all(clean), false=not all(clean[:3]))
    return Finding(verdict, ("ten_thousand", "billion", "infinity"), rows)


def one_bias(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Attention as reference code writes it: every mask filled into one bias [query, key]."""
    bias = torch.zeros(q.shape[-2], k.shape[-2])
    if causal:
        if mask is not None:
            raise RuntimeError("a mask and is_causal exclude each other")
        bias.masked_fill_(~causal_mask(*bias.shape), -math.inf)
    if mask is not None and mask.dtype == torch.bool:
        bias.masked_fill_(~mask, -math.inf)
    elif mask is not None:
        bias = bias + mask
    return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + bias).softmax(-1) @ v


def _self_site(traced: Trace) -> AttentionSite:
    """The first self-attention of the stream that the logits belong to."""
    own = (site for site in traced.sites if site.kind == "self" and site.query_stream == "tgt")
    return next(own)


def reference(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """The reference code beside the operator, with every kind of mask, on the reader's q, k, v."""
    site = _self_site(traced)
    q, k, v = (torch.tensor(traced.activations[site.hook(what)])[None] for what in ("q", "k", "v"))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    keep = causal_mask(q.shape[-2])
    empty = keep.clone()
    empty[0] = False
    floats = torch.zeros(keep.shape).masked_fill(~keep, -math.inf)
    cases = {
        "no_mask": (None, False),
        "causal": (None, True),
        "float_mask": (floats, False),
        "bool_mask": (keep, False),
        "mask_of_four_axes": (keep[None, None], False),
        "empty_row": (empty, False),
        "mask_and_causal": (keep, True),
    }
    rows = tuple(
        ResultRow(name, (_apart(q, k, v, mask, causal),)) for name, (mask, causal) in cases.items()
    )
    same = [row.values[0] < 1e-4 for row in rows]
    verdict = judged(all(same), false=not any(same))
    return Finding(verdict, ("difference",), rows)


def _apart(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> float:
    """The largest difference of the two; NaN where the reference refuses or gives NaN."""
    fused = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    try:
        return float((one_bias(q, k, v, mask, causal) - fused).abs().max())
    except RuntimeError:
        return math.nan


STEPS, LENGTH, SYMBOLS, WIDTH = 250, 12, 10, 32


def one_head(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """One layer of width 32 learns the larger of both neighbours with 1, 2 and 4 heads."""
    rows = []
    for turn, n_heads in enumerate((1, 2, 4)):
        share = _neighbours(n_heads, part_of(progress, turn, 3))
        rows.append(ResultRow("heads", (share,), of=str(n_heads)))
    best = max(row.values[0] for row in rows[1:])
    verdict = judged(best - rows[0].values[0] > 0.1)
    return Finding(verdict, ("right",), tuple(rows), bars="right")


def _neighbours(n_heads: int, progress: FractionDone) -> float:
    """Train a block on the larger neighbour; returns the share of positions that are then right."""
    config = ModelConfig(
        vocab_size=SYMBOLS, d_model=WIDTH, n_layers=1, n_heads=n_heads, d_ff=64, dropout=0.0
    )
    generator = torch.Generator().manual_seed(1)
    with torch.inference_mode(False), torch.enable_grad():
        with seeded(1):
            embed, block = nn.Embedding(SYMBOLS, WIDTH), EncoderBlock(config)
            out = nn.Linear(WIDTH, SYMBOLS)
        table = sinusoidal_table(LENGTH, WIDTH)
        net = nn.ModuleList([embed, block, out])
        optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
        for step in range(STEPS):
            x = torch.randint(SYMBOLS, (32, LENGTH), generator=generator)
            y = torch.maximum(x[:, :-2], x[:, 2:])
            logits = out(block(embed(x) + table))[:, 1:-1]
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            torch.autograd.backward([loss])
            optimizer.step()
            progress((step + 1) / STEPS)
        x = torch.randint(SYMBOLS, (256, LENGTH), generator=generator)
        right = out(block(embed(x) + table))[:, 1:-1].argmax(-1) == torch.maximum(
            x[:, :-2], x[:, 2:]
        )
    return float(right.float().mean())


ATTENTION = (
    Claim("variance", "attention", variance),
    Claim("saturation", "attention", saturation),
    Claim("fills", "attention", fills),
    Claim("reference", "attention", reference),
    Claim("one_head", "attention", one_head, own=False, slow=True),
)
