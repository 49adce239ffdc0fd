"""The effect of positions on this head: scores and weights with original and changed positions."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

import numpy as np
from jaxtyping import Bool, Float

from explorer.analysis.heads.compare import token_diff
from explorer.analysis.positions.changes import (
    CHANGE_KINDS,
    ChangeKind,
    PositionChange,
    most_shift,
    position_functions,
)
from explorer.analysis.positions.order import written
from explorer.exhibits import Exhibit, View, block as b, saying
from explorer.exhibits.picking import pick_one, pick_place, pick_stream, pick_token, titled
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.exhibits.positions.opening import opening, positions_at
from explorer.figures.curves import lines
from explorer.figures.matrix import change, scores, weights
from explorer.library import LoadedModel
from explorer.numbers import share
from explorer.runs.edits import Edit
from explorer.runs.inputs import given_tokens
from explorer.runs.interventions import edit_functions
from explorer.runs.rerun import require_same_model, rerun, token_logprobs, written_tokens
from explorer.runs.trace import Trace
from models.hooks import LOGITS, Edits
from models.rows import Stream


@dataclass(frozen=True, eq=False)
class Reread:
    """A Trace's input read again: scores and patterns [head, query, key] by site, and the losses.

    `losses` are -ln p of the Trace's `written_tokens`, [written].
    """

    scores: dict[str, np.ndarray] = field(repr=False)
    patterns: dict[str, np.ndarray] = field(repr=False)
    losses: Float[np.ndarray, " written"] = field(repr=False)

    @property
    def loss(self) -> float:
        """Mean loss per token; NaN if no token is predicted."""
        return float(self.losses.mean()) if len(self.losses) else float("nan")


def reread(
    loaded: LoadedModel, traced: Trace, stream: Stream, change: PositionChange | None
) -> Reread:
    """Read a Trace's input under changed positions of one stream; None: unchanged.

    The Trace's own edits stay in force. Raises ValueError for another model's Trace.
    """
    require_same_model(loaded, traced)
    hooks = {site.hook(what) for site in traced.sites for what in ("scores", "pattern")}
    changed = {} if change is None else position_functions(loaded, stream, change)
    seen = rerun(loaded, traced, hooks | {LOGITS}, Edits(changed))
    activations = {name: tensor[0].numpy() for name, tensor in seen.items()}
    return Reread(
        scores={site.name: activations[site.hook("scores")] for site in traced.sites},
        patterns={site.name: activations[site.hook("pattern")] for site in traced.sites},
        losses=-token_logprobs(activations[LOGITS], written_tokens(traced)),
    )


def write_under(
    loaded: LoadedModel,
    text: str,
    stream: Stream,
    change: PositionChange,
    edits: Sequence[Edit] = (),
) -> str:
    """The model's output while the positions of `stream` are changed. Raises InputProblem."""
    functions = edit_functions(loaded.sites, edits)
    changed = functions.then(Edits(position_functions(loaded, stream, change)))
    return written(loaded, given_tokens(loaded, text), changed)


def weight_moved(
    before: Float[np.ndarray, "query key"],
    after: Float[np.ndarray, "query key"],
    valid: Bool[np.ndarray, " query"],
) -> float:
    """The share of a head's weight that has moved: half the sum of |change|, 0 to 1.

    Averaged over the real queries (total variation distance).
    """
    return float(np.abs(after - before)[valid].sum(1).mean() / 2) if valid.any() else 0.0


def by_offset(
    values: Float[np.ndarray, "pos pos"], mask: Bool[np.ndarray, "pos pos"]
) -> tuple[np.ndarray, Float[np.ndarray, " offset"]]:
    """The mean of a square matrix for each offset key - query, over the allowed cells.

    Returns (offsets, means); offsets at which nothing is allowed are left out.
    """
    n = len(values)
    offsets, means = [], []
    for offset in range(1 - n, n):
        allowed = np.diagonal(mask, offset)
        if allowed.any():
            offsets.append(offset)
            means.append(float(np.diagonal(values, offset)[allowed].mean()))
    return np.array(offsets, np.int64), np.array(means, np.float64)


SCORES = {
    "adds": (r"q_i \cdot k_j", ""),
    "turns": (r"R_i q_i \cdot R_j k_j", ""),
    "biases": (r"q_i \cdot k_j", " + b_{j-i}"),
}
"""Formulas of the score, by where the model's positions act; those that are added act before."""


@dataclass(frozen=True, eq=False)
class Changed:
    """A run with its positions and with changed ones, and the outputs of both, if there are any."""

    before: Reread
    after: Reread
    texts: tuple[str, str] | None


def compute(
    loaded: LoadedModel,
    trace: Trace,
    text: str,
    target: str | None,
    edits: tuple[Edit, ...],
    stream: Stream,
    change: PositionChange,
) -> Changed | None:
    """Run with the original and the changed positions; None for a model without positions."""
    if loaded.config.position_type.acts == "nothing":
        return None
    position_change = _possible(change, loaded, trace, stream)
    before, after = (reread(loaded, trace, stream, variant) for variant in (None, position_change))
    texts = None
    if len(before.losses) and not (target and loaded.config.reads_source):
        changes = (PositionChange("shift", 0), position_change)
        right, other = (write_under(loaded, text, stream, variant, edits) for variant in changes)
        texts = (right, other)
    return Changed(before, after, texts)


def _possible(
    change: PositionChange, loaded: LoadedModel, trace: Trace, stream: Stream
) -> PositionChange:
    """The change with positions that this sequence has."""
    n = len(trace.src_tokens if stream == "src" else trace.tgt_tokens)
    if change.kind == "shift":
        return PositionChange("shift", max(0, min(change.first, most_shift(loaded, n))))
    if change.kind == "swap":
        return PositionChange("swap", min(change.first, n - 1), min(change.second, n - 1))
    return change


def show(changed: Changed | None, view: View) -> b.Blocks:
    """One head before and after a change of positions, and the resulting output."""
    yield from opening(view)
    if changed is None:
        yield b.Hint(view.t("positions.none_to_change"))
        return
    yield b.Row(_controls(view), gap="medium")
    shown = view.one_of("picture", PositionsChoices.pictures)
    more = b.More(field="picture", form="menu", width=160)
    pick = pick_one(view, "positions.show", PositionsChoices.pictures, shown, **more)
    yield b.Row((*pick_place(view, "positions"), pick))
    before, after = changed.before, changed.after
    yield _pictures(view, shown, before, after)
    yield b.Sentence("head", _said(view, before, after))
    if changed.texts is not None:
        right, text = changed.texts
        key = "positions.writes_same" if text == right else "positions.writes"
        yield b.Prose(view.t(key, text=_marked(right, text)))
    if view.site.kind == "self":
        yield from _offsets(view, before, after)
    if len(before.losses):
        losses = {"before": f"{before.loss:.2f}", "after": f"{after.loss:.2f}"}
        yield b.Prose(view.t("positions.losses", **losses))
    acts = view.loaded.config.position_type.acts
    products, added = SCORES[acts]
    yield b.Formula.of(
        view.t("positions.head_formula"),
        rf"s_{{ij}} = {view.scaled(products)}{added}",
        r"\text{moved} = \frac{1}{2n}\sum_{i,j} \lvert a'_{ij} - a_{ij} \rvert",
    )
    yield b.Code((reread, position_functions, *positions_at(view, view.sequence)))
    yield b.Numbers(lambda: _numbers(view, before, after))


def _controls(view: View) -> list[b.Block]:
    """Controls for the stream and the change of its positions."""
    tokens = view.str_tokens()
    asked = view.choices(PositionsChoices).change
    change = _possible(asked, view.loaded, view.trace, view.sequence)
    kind = pick_one(view, "positions.change", CHANGE_KINDS, change.kind, form="menu", width=220)
    kind = replace(kind, change=lambda kind: b.choose(change=_usual(kind, len(tokens))))
    controls: list[b.Block] = [*pick_stream(view, "positions.stream.head"), kind]
    most = most_shift(view.loaded, len(tokens))
    if change.kind == "shift" and most >= 1:

        def shift(by: int) -> b.Change:
            return b.choose(change=PositionChange("shift", by))

        label = view.t("positions.shift_by")
        span, display = b.Span(0, most), b.Display(260)
        slider = b.Slider("positions.shift", label, span, change.first, shift, display=display)
        controls.append(slider)
    if change.kind == "swap":

        def swap(name: str, place: int) -> b.Change:
            places = {"first": change.first, "second": change.second, name: place}
            return b.choose(change=PositionChange("swap", **places))

        for key, name in (("positions.first", "first"), ("positions.second", "second")):
            now, turn = getattr(change, name), partial(swap, name)
            controls.append(pick_token(view, key, key, tokens, now, change=turn, width=150))
    return controls


def _usual(kind: ChangeKind, n: int) -> PositionChange:
    """The default change of this kind."""
    places = {"shift": (20,), "swap": (min(1, n - 1), min(4, n - 1))}
    return PositionChange(kind, *places.get(kind, ()))


def _pictures(view: View, shown: str, before: Reread, after: Reread) -> b.Block:
    site, head = view.site.name, view.head
    mask = view.trace.mask(site)[head]
    axes, words = saying.site_axes(view), view.words("figures.heatmap")
    old, new = before.patterns[site][head], after.patterns[site][head]
    if shown == "difference":
        drawn = change(old, new, axes, masks=(mask, mask), words=words)
        panel = view.t("positions.shows.difference"), drawn
        return b.Matrices("positions.difference", (panel,))
    raw = before.scores[site][head], after.scores[site][head]
    top = float(np.abs(np.stack(raw)[:, mask]).max(initial=1e-6))
    top_weight = float(max(old.max(initial=0.01), new.max(initial=0.01)))
    panels = []
    for at, key in enumerate(("positions.head_before", "positions.head_after")):
        drawn = weights((old, new)[at], mask, axes, top=top_weight, words=words)
        if shown == "scores":
            title = view.t("positions.shows.scores")
            drawn = scores(raw[at], mask, axes, title=title, top=top, words=words)
        panels.append((view.t(key), drawn))
    return b.Matrices("positions.both", panels)


def _said(view: View, before: Reread, after: Reread) -> str:
    site, head = view.site, view.head
    valid = view.trace.src_valid if site.query_stream == "src" else view.trace.tgt_valid
    old, new = (run.patterns[site.name][head] for run in (before, after))
    return view.t("positions.read_head", share=share(weight_moved(old, new, valid)))


def _marked(before: str, after: str) -> str:
    """A diff of two texts, by character or by word depending on the tokens."""
    words = before.isascii() or after.isascii()
    rows = [text.split() if words else list(text) for text in (before, after)]
    joined = [
        ((" " if words else "").join(token for token, _ in run), status)
        for status, run in groupby(token_diff(*rows), key=lambda each: each[1])
    ]
    return saying.marked_words(joined)


def _offsets(view: View, before: Reread, after: Reread) -> b.Blocks:
    """The weight by distance, before and after."""
    mask = view.trace.mask(view.site.name)[view.head]
    patterns = [side.patterns[view.site.name][view.head] for side in (before, after)]
    (offsets, old), (_, new) = (by_offset(side, mask) for side in patterns)
    names = (view.t("positions.head_before"), view.t("positions.head_after"))
    titles = view.axes("positions.offset", "positions.mean_weight")
    draw = partial(lines, offsets, 100 * np.stack([old, new]), names, height=260, **titles)
    yield from titled(view, "positions.by_offset", draw)


def _numbers(view: View, before: Reread, after: Reread) -> dict[str, list[object]]:
    site, head, row = view.site.name, view.head, view.row
    columns: dict[str, list[object]] = {
        view.t("positions.key"): [
            f"{place} {token}" for place, token in enumerate(view.trace.key_tokens(site))
        ]
    }
    for key, run in (("positions.head_before", before), ("positions.head_after", after)):
        label = view.t(key)
        score, weight = run.scores[site][head, row], run.patterns[site][head, row]
        columns[f"{label} · {view.t('positions.shows.scores')}"] = score.round(3).tolist()
        columns[f"{label} · {view.t('positions.shows.weights')}"] = weight.round(4).tolist()
    return columns


EXHIBIT = Exhibit(compute, show)
