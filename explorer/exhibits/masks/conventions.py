"""One mask in the conventions of different libraries, and the effect of mixing them up.

The renderings (ways to write a mask) and the readers (code that a mask is passed to) are those of
tutorials and torch. Each pair runs on the scores of a head, so its effect is measured.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from explorer.exhibits import Exhibit, View, block as b, picking, saying
from explorer.exhibits.escape import escape
from explorer.exhibits.masks.choices import (
    READERS,
    RENDERINGS,
    MasksChoices,
    ReaderName,
    RenderingName,
)
from explorer.figures.bugs import suspect
from explorer.figures.outcomes import Level, outcomes, written_mask
from explorer.numbers import percent
from explorer.numerics import masked_softmax
from explorer.runs.trace import Trace
from models.hooks import AttentionSite
from models.masks import causal_mask

Outcome = Literal["right", "inverted", "unmasked", "wrong", "nan", "refused"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
LEVEL_OF: dict[Outcome, Level] = {
    "right": "good",
    "inverted": "silent",
    "unmasked": "silent",
    "wrong": "silent",
    "nan": "loud",
    "refused": "loud",
}
ROUNDING = 1e-5
"""Differences between weights up to this are float32 rounding."""


# The causal mask of n tokens, as it is written.


def causal_ones(n: int) -> Float[Tensor, "query key"]:
    """1 = may attend, 0 = blocked."""
    return torch.tril(torch.ones(n, n))


def causal_keep(n: int) -> Bool[Tensor, "query key"]:
    """True = may attend."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def causal_blocked(n: int) -> Bool[Tensor, "query key"]:
    """True = blocked."""
    return torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)


def causal_infinite(n: int) -> Float[Tensor, "query key"]:
    """0 = may attend, -inf = blocked; additive."""
    return torch.triu(torch.full((n, n), float("-inf")), diagonal=1)


def causal_billion(n: int) -> Float[Tensor, "query key"]:
    """0 = may attend, -1e9 = blocked; additive."""
    return torch.triu(torch.full((n, n), -1e9), diagonal=1)


@dataclass(frozen=True)
class Rendering:
    """One way to write a mask: makes a causal one, and converts a Bool keep-mask to it and back."""

    causal: Callable[[int], Tensor]
    write: Callable[[Tensor], Tensor]
    read: Callable[[Tensor], Tensor]


def _added(keep: Tensor, fill: float) -> Tensor:
    return torch.zeros(keep.shape).masked_fill(~keep, fill)


WRITTEN: dict[RenderingName, Rendering] = {
    "ones": Rendering(causal_ones, lambda keep: keep.float(), lambda mask: mask != 0),
    "keep": Rendering(causal_keep, lambda keep: keep, lambda mask: mask),
    "blocked": Rendering(causal_blocked, lambda keep: ~keep, lambda mask: ~mask),
    "infinite": Rendering(
        causal_infinite, lambda keep: _added(keep, -math.inf), lambda mask: mask == 0
    ),
    "billion": Rendering(causal_billion, lambda keep: _added(keep, -1e9), lambda mask: mask == 0),
}


# What reads a mask: (scores, mask), both [query, key] -> pattern [query, key].


def equals_zero(scores: Tensor, mask: Tensor) -> Tensor:
    """Blocks cells whose mask is 0."""
    return scores.masked_fill(mask == 0, -1e9).softmax(-1)


def true_hides(scores: Tensor, mask: Tensor) -> Tensor:
    """Blocks cells whose mask is True."""
    return scores.masked_fill(mask, float("-inf")).softmax(-1)


def added(scores: Tensor, mask: Tensor) -> Tensor:
    """Adds the mask to the scores."""
    return (scores + mask).softmax(-1)


def sdpa(scores: Tensor, mask: Tensor) -> Tensor:
    """torch's fused function: Bool True = may attend; floats are added.

    It is given queries and keys whose scaled product is `scores`, and one-hot values, so that its
    output is the pattern.
    """
    n_key = scores.shape[-1]
    q, eye = (scores * math.sqrt(n_key))[None, None], torch.eye(n_key)[None, None]
    return F.scaled_dot_product_attention(q, eye, eye, attn_mask=mask[None, None])[0, 0]


def mha(scores: Tensor, mask: Tensor) -> Tensor:
    """torch's module: Bool True = blocked; floats are added. Fed as `sdpa` is."""
    n_key = scores.shape[-1]
    module = nn.MultiheadAttention(n_key, 1, bias=False, device="meta").to_empty(device="cpu")
    eye = torch.eye(n_key)
    with torch.no_grad():
        module.in_proj_weight.copy_(eye.repeat(3, 1))
        module.out_proj.weight.copy_(eye)
        _, weights = module(scores * math.sqrt(n_key), eye, eye, attn_mask=mask)
    return weights


READ_BY: dict[ReaderName, Callable[[Tensor, Tensor], Tensor]] = {
    "equals_zero": equals_zero,
    "true_hides": true_hides,
    "added": added,
    "sdpa": sdpa,
    "mha": mha,
}


@dataclass(frozen=True, eq=False)
class Handed:
    """The result of passing one rendering to one reader.

    `hidden` is the most weight (0 to 1) that a row puts on blocked keys, `nan_rows` how many rows
    that may attend to something are NaN, `difference` the largest distance of any weight from the
    right one, among rows that are numbers. `pattern` [query, key] is the output, None if the
    mask was rejected with the message `refused`.
    """

    rendering: RenderingName
    reader: ReaderName
    outcome: Outcome
    hidden: float = math.nan
    nan_rows: int = 0
    difference: float = math.nan
    refused: str = ""
    pattern: Float[np.ndarray, "query key"] | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Conventions:
    """The mask of a head in every rendering, each given to every reader.

    `keep` is the mask that the model applied, `right` the pattern that belongs to it (both
    [query, key]); `alike` is how many cells of all renderings, converted back, equal `keep`, of
    `cells`. `causal` is whether `keep` is the causal mask, made as tutorials make it.
    """

    keep: Bool[np.ndarray, "query key"]
    right: Float[np.ndarray, "query key"] = field(repr=False)
    renderings: dict[RenderingName, np.ndarray] = field(repr=False)
    handed: tuple[Handed, ...] = field(repr=False)
    alike: int
    cells: int
    causal: bool

    def of(self, rendering: RenderingName, reader: ReaderName) -> Handed:
        """The result of one pair."""
        return self.handed[RENDERINGS.index(rendering) * len(READERS) + READERS.index(reader)]

    @property
    def readers_of_all(self) -> int:
        """How many readers give the right weights for every rendering."""
        return sum(
            all(self.of(one, other).outcome == "right" for one in RENDERINGS) for other in READERS
        )

    def count(self, *outcomes: Outcome) -> int:
        """How many pairs have one of these outcomes."""
        return sum(each.outcome in outcomes for each in self.handed)


def conventions(trace: Trace, site: AttentionSite, head: int) -> Conventions:
    """Pass every rendering of a head's mask to every reader, with the head's own scores."""
    scores = torch.tensor(trace.activations[site.hook("scores")][head])
    return try_readers(scores, torch.tensor(trace.mask(site.name)[head]))


def try_readers(scores: Float[Tensor, "query key"], keep: Bool[Tensor, "query key"]) -> Conventions:
    """Pass a mask (True = may attend), in every rendering, to every reader with these scores."""
    n_query, n_key = keep.shape
    is_causal = n_query == n_key and bool((keep == causal_mask(n_query)).all())
    written = {
        name: way.causal(n_query) if is_causal else way.write(keep) for name, way in WRITTEN.items()
    }
    back = [WRITTEN[name].read(mask) for name, mask in written.items()]
    right = masked_softmax(scores, keep)
    return Conventions(
        keep=keep.numpy(),
        right=right.numpy(),
        renderings={name: mask.numpy() for name, mask in written.items()},
        handed=tuple(
            _handed(rendering, reader, scores, keep, written[rendering], right)
            for rendering in RENDERINGS
            for reader in READERS
        ),
        alike=sum(int((mask == keep).sum()) for mask in back),
        cells=len(back) * keep.numel(),
        causal=is_causal,
    )


def _handed(
    rendering: RenderingName,
    reader: ReaderName,
    scores: Tensor,
    keep: Tensor,
    mask: Tensor,
    right: Tensor,
) -> Handed:
    try:
        pattern = READ_BY[reader](scores, mask)
    except (RuntimeError, AssertionError) as error:  # torch rejects the dtype of the mask
        return Handed(rendering, reader, "refused", refused=str(error).splitlines()[0])
    lost = pattern.isnan().any(-1)
    something = keep.any(-1)
    told = ~lost & something
    hidden = float((pattern * ~keep)[told].sum(-1).max()) if told.any() else 0.0
    apart = float((pattern - right)[told].abs().max()) if told.any() else 0.0
    return Handed(
        rendering=rendering,
        reader=reader,
        outcome=_outcome(pattern, right, scores, keep, told),
        hidden=hidden,
        nan_rows=int((lost & something).sum()),
        difference=apart,
        pattern=pattern.numpy(),
    )


def _outcome(pattern: Tensor, right: Tensor, scores: Tensor, keep: Tensor, told: Tensor) -> Outcome:
    """The outcome for queries with visible keys; `told` are those without NaN."""
    if not told.any():
        return "nan" if keep.any() else "right"
    mine, whole = pattern[told], bool((told == keep.any(-1)).all())
    if (mine - right[told]).abs().max() < ROUNDING:
        return "right" if whole else "nan"
    mixed = ~keep[told].all(-1)
    if mixed.any() and ((mine * ~keep[told]).sum(-1)[mixed] > 1 - ROUNDING).all():
        return "inverted"
    if (mine - scores[told].softmax(-1)).abs().max() < ROUNDING:
        return "unmasked"
    return "wrong"


def show(found: Conventions, view: View) -> b.Blocks:
    """The renderings of this head's mask, the grid of pairs, and the chosen pair in full."""
    choices = view.choices(MasksChoices)
    yield b.Prose(view.t("masks.conventions_lead"))
    yield b.Row(picking.pick_place(view, "masks"))
    yield b.Row([_rendering(view, found, name) for name in RENDERINGS], align="top")
    yield b.Sentence("renderings", _alike(view, found))
    if found.keep.all():
        yield b.Hint(view.t("masks.conventions_open"))
    yield b.Title(view.t("masks.conventions_grid"))
    yield _grid(view, found)
    counts = {
        "count": len(found.handed),
        "right": found.count("right"),
        "silent": found.count("inverted", "unmasked", "wrong"),
        "loud": found.count("nan", "refused"),
    }
    yield b.Sentence("conventions", view.t("masks.conventions_reading", **counts))
    yield b.Row(
        (
            picking.pick_one(view, "masks.rendering", RENDERINGS, choices.rendering),
            picking.pick_one(view, "masks.reader", READERS, choices.reader),
        )
    )
    yield from _pair(view, found, found.of(choices.rendering, choices.reader))
    yield from _small_print(view, found)


def _rendering(view: View, found: Conventions, name: RenderingName) -> b.Pane:
    """The mask in one convention."""
    title = view.t(f"masks.rendering_{name}")
    draw = partial(written_mask, found.keep, _said(found.renderings[name]))
    note = b.Note(view.t(f"masks.rendering_{name}_by"))
    return b.Pane((b.Title(title), b.Chart(f"masks.rendering.{name}", draw, title), note), 170)


def _alike(view: View, found: Conventions) -> str:
    words = {"alike": f"{found.alike:,}", "cells": f"{found.cells:,}", "count": len(RENDERINGS)}
    said = view.t("masks.conventions_alike", **words)
    return said if found.readers_of_all else f"{said} {view.t('masks.conventions_none')}"


def _said(mask: np.ndarray) -> np.ndarray:
    """The values of a mask as text: T and F, 0 and 1, −∞, −1e9."""
    if mask.dtype == np.bool_:
        return np.where(mask, "T", "F")
    names = {1.0: "1", 0.0: "0", -np.inf: "−∞", -1e9: "−1e9"}
    return np.vectorize(lambda value: names[float(np.float64(value))], otypes=[str])(mask)


def _grid(view: View, found: Conventions) -> b.Chart:
    choices = view.choices(MasksChoices)
    draw = partial(
        outcomes,
        [[LEVEL_OF[found.of(one, other).outcome] for other in READERS] for one in RENDERINGS],
        [[_short(view, found.of(one, other)) for other in READERS] for one in RENDERINGS],
        [view.t(f"masks.rendering_{name}") for name in RENDERINGS],
        [view.t(f"masks.reader_{name}") for name in READERS],
        selected=(RENDERINGS.index(choices.rendering), READERS.index(choices.reader)),
    )
    return b.Chart("masks.conventions", draw, view.t("masks.conventions_grid"))


def _short(view: View, handed: Handed) -> str:
    word = view.t(f"masks.outcome_{handed.outcome}")
    return f"{word}\n{percent(handed.hidden)}" if handed.hidden > 0.0005 else word


def _pair(view: View, found: Conventions, handed: Handed) -> b.Blocks:
    """The actual next to the correct pattern, or torch's error message."""
    words = {
        "rendering": view.t(f"masks.rendering_{handed.rendering}"),
        "reader": view.t(f"masks.reader_{handed.reader}"),
    }
    said = view.t(f"masks.handed_{handed.outcome}", hidden=_share(handed), **words)
    if handed.nan_rows:
        said += " " + view.t("masks.handed_rows", count=handed.nan_rows)
    yield b.Sentence("handed", said)
    if handed.pattern is None:
        yield b.Verbatim(handed.refused)
        return
    shown = (("right", found.right), ("got", handed.pattern))
    yield b.Columns([_compared(view, found, name, pattern) for name, pattern in shown])


def _compared(
    view: View, found: Conventions, name: str, pattern: np.ndarray
) -> tuple[b.Block, ...]:
    """A pattern with its title and its weight on blocked keys."""
    title = view.t(f"masks.handed_{name}_title")
    draw = partial(
        suspect,
        pattern,
        ~found.keep,
        hidden_word=view.t("cases.hidden"),
        words=view.words("figures.heatmap"),
        **saying.site_axes(view),
    )
    return b.Note(title), b.Chart(f"masks.handed.{name}", draw, title)


def _share(handed: Handed) -> str:
    return "–" if np.isnan(handed.hidden) else percent(handed.hidden)


def _small_print(view: View, found: Conventions) -> b.Blocks:
    choices = view.choices(MasksChoices)
    yield b.Formula.of(
        view.t("masks.conventions_formula"),
        r"m^{01}_{ij} = [\,j\le i\,],\qquad m^{+}_{ij} = "
        r"\begin{cases} 0 & j\le i \\ -\infty & j > i \end{cases},\qquad "
        r"m^{\neg}_{ij} = [\,j > i\,]",
        r"e^{s + m^{+}} = m^{01}\,e^{s} = (1 - m^{\neg})\,e^{s}",
    )
    written = [WRITTEN[choices.rendering].causal] if found.causal else []
    yield b.Code((*written, READ_BY[choices.reader], conventions))
    yield b.Numbers(lambda: _numbers(view, found))


def _numbers(view: View, found: Conventions) -> dict[str, list[object]]:
    each = found.handed
    return {
        view.t("masks.rendering"): [view.t(f"masks.rendering_{one.rendering}") for one in each],
        view.t("masks.reader"): [view.t(f"masks.reader_{one.reader}") for one in each],
        view.t("masks.outcome"): [view.t(f"masks.outcome_{one.outcome}") for one in each],
        view.t("masks.hidden_weight"): [_share(one) for one in each],
        view.t("masks.nan_rows"): [one.nan_rows for one in each],
        view.t("masks.refusal"): [escape(one.refused) for one in each],
    }


EXHIBIT = Exhibit(conventions, show)
