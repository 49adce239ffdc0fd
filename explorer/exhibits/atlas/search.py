"""Search by pattern: from a pattern of the open sentence, or a painted one, to similar heads and
sentences."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from explorer.analysis.atlas.store import Head, Text
from explorer.components import Stroke
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.atlas.choices import SOURCES, AtlasChoices, Painted
from explorer.exhibits.atlas.measured import WHICH, Which, atlas, which_of
from explorer.exhibits.atlas.searched import (
    HeadFeatures,
    features_of,
    in_sentence,
    numbers_to_search,
    painted_features,
    searched,
)
from explorer.exhibits.atlas.sentence import source_of, view_of
from explorer.exhibits.atlas.sentences import beginning
from explorer.exhibits.atlas.shown import kind_words, open_head, place, short, shown_atlas
from explorer.exhibits.block import escape
from explorer.exhibits.choices import MOST_PAIRS
from explorer.exhibits.links import State
from explorer.exhibits.picking import pick_one, pick_place, pick_token
from explorer.exhibits.saying import message, site_axes
from explorer.figures.matrix import Matrix, weights
from explorer.library import LoadedModel
from explorer.numbers import fixed
from explorer.problems import InputProblem
from explorer.runs.rerun import rows_of
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Role

FORMULA = (
    r"\cos(f, g) = \frac{f \cdot g}{\lVert f \rVert\,\lVert g \rVert}, \qquad "
    r"f = \frac{1}{\sigma}\Big(\frac1n \sum_{i=1}^{n} \phi(A_i) - \mu\Big)",
)
MOST_HEADS, MOST_SENTENCES = 8, 12


@dataclass(frozen=True, eq=False)
class Similar:
    """The similarity of each head of one role to a pattern: over all texts, in each of these
    `texts`, and in the open sentence."""

    texts: tuple[int, ...]
    over: Float[np.ndarray, " head"]
    close: Float[np.ndarray, "text head"]
    here: Float[np.ndarray, " head"]


def compute(
    which: Which,
    loaded: LoadedModel,
    trace: Trace,
    site: AttentionSite,
    kind: Role,
    wanted: tuple[str, int, int, int, Painted],
) -> Similar | None:
    """None if nothing is painted, or no sentence can be searched. Raises InputProblem."""
    corpus, pattern = searched(which, kind), wanted_in(trace, site, *wanted)
    if not corpus.texts or not pattern.any():
        return None
    features = painted_features(loaded, site, rows_of(trace), pattern, atlas(which).rare)
    patterns = np.concatenate([trace.pattern(sublayer.name) for sublayer in trace.sites_of(kind)])
    over, close = corpus.of_heads(features), corpus.of_texts(features)
    return Similar(corpus.texts, over, close, in_sentence(patterns, pattern))


def wanted_of(view: View) -> tuple[str, int, int, int, Painted]:
    """Which pattern is searched for: its source, the head, the cell (query, key), the painted
    cells."""
    choices = view.choices(AtlasChoices)
    return choices.like, view.head, view.row, _key(view), choices.painted


def _key(view: View) -> int:
    """The key of the cell: the selected one, else the one with the highest weight."""
    row = view.trace.pattern(view.site.name)[view.head][view.row]
    chosen = view.state.key
    return int(row.argmax()) if chosen is None or chosen >= len(row) else chosen


def wanted_in(
    trace: Trace, site: AttentionSite, like: str, head: int, row: int, key: int, painted: Painted
) -> Float[np.ndarray, "query key"]:
    """The search pattern on the open sentence; 0 outside of it."""
    pattern = trace.pattern(site.name)[head].astype(np.float32)
    wanted = np.zeros_like(pattern)
    if like == "matrix":
        return pattern
    if like == "row":
        wanted[row] = pattern[row]
    elif like == "cell":
        wanted[row, key] = 1.0
    else:
        wanted[_painted(trace.mask(site.name)[head], painted)] = 1.0
        total = wanted.sum(1, keepdims=True)
        np.divide(wanted, total, out=wanted, where=total > 0)
    return wanted


def _painted(mask: np.ndarray, painted: Painted) -> np.ndarray:
    """The painted cells, Bool [query, key], that exist in this sentence and are not masked."""
    cells = np.zeros_like(mask)
    for query, key in painted:
        if query < mask.shape[0] and key < mask.shape[1]:
            cells[query, key] = mask[query, key]
    return cells


def show(similar: Similar | None, view: View) -> b.Blocks:
    """The search pattern next to the most similar one; the most similar heads and sentences."""
    like = view.choices(AtlasChoices).like
    yield b.SentenceLine()
    yield b.Row((*pick_place(view, "atlas.search"), pick_one(view, "atlas.like", SOURCES, like)))
    wanted = wanted_in(view.trace, view.site, *wanted_of(view))
    if like in ("row", "cell"):
        yield _pick_cell(view, like)
    best = [] if similar is None else _best(similar, view)
    yield b.Hero((b.Columns([_wanted(view, wanted), [*_most_similar(view, best)]]),))
    if like == "painted" and not wanted.any():
        yield b.Hint(view.t("atlas.paint_first"), "brush")
    if similar is not None:
        yield from _results(view, similar, best)


def _pick_cell(view: View, like: str) -> b.Row:
    """The row to search for, or the cell."""
    name = view.site.name
    queries, keys = view.trace.query_tokens(name), view.trace.key_tokens(name)

    def row(row: int) -> b.Change:
        return b.choose(row=row, key=None)

    def key(key: int) -> b.Change:
        return b.choose(row=view.row, key=key)

    picks = [pick_token(view, "atlas.row", "atlas.row", queries, view.row, change=row)]
    if like == "cell":
        picks.append(pick_token(view, "atlas.key", "atlas.key", keys, _key(view), change=key))
    return b.Row(picks)


def _wanted(view: View, wanted: np.ndarray) -> list[b.Block]:
    """The search pattern; a painted one with a brush."""
    choices = view.choices(AtlasChoices)
    if choices.like != "painted":
        return [_heatmap(view, wanted, "atlas.wanted", view.t("atlas.wanted"))]
    clear = b.Button(
        "atlas.paint_clear",
        view.t("atlas.paint_clear"),
        b.choose(painted=()),
        disabled=not choices.painted,
    )
    full = [b.Note(view.t("atlas.paint_full", count=MOST_PAIRS))]
    return [_brush(view, choices.painted), clear, *full * (len(choices.painted) >= MOST_PAIRS)]


def _heatmap(view: View, pattern: np.ndarray, name: str, title: str) -> b.Matrices:
    """A pattern of the view's head."""
    mask, words = view.trace.mask(view.site.name)[view.head], view.words("figures.heatmap")
    return b.Matrices(name, ((title, weights(pattern, mask, site_axes(view), words=words)),))


def _brush(view: View, chosen: Painted) -> b.Matrices:
    """A matrix that is painted by click or drag."""
    mask = view.trace.mask(view.site.name)[view.head]
    painted = _painted(mask, chosen)
    rules = [view.t(f"atlas.{name}") for name in ("is_painted", "unpainted", "masked")]
    blocked = np.where(painted, 0, np.where(mask, 1, 2))
    shown = ((view.t("atlas.wanted"), Matrix(site_axes(view), blocked=blocked, rules=rules)),)
    hint = {"hint": view.t("atlas.paint_hint")}
    return b.Matrices("atlas.paint", shown, painted=partial(_stroke, mask), words=hint)


def _stroke(mask: np.ndarray, at: int, stroke: Stroke) -> b.Change:
    """Add the cells of a stroke to the painted ones, or remove them."""

    def painted(state: State) -> dict[str, Any]:
        before = state.of(AtlasChoices).painted
        if stroke.open:
            cells = (*before, *(cell for cell in stroke.cells if mask[cell]))
        else:
            cells = tuple(cell for cell in before if cell not in stroke.cells)
        return {"painted": tuple(dict.fromkeys(cells))[:MOST_PAIRS]}

    return b.Change(painted)


Close = tuple[Text, Head, float]
"""A sentence, its most similar head, and how similar it is."""


def _best(similar: Similar, view: View) -> list[Close]:
    """The sentences with the most similar patterns."""
    atlas, numbers = shown_atlas(view).atlas, numbers_to_search(which_of(view))
    heads, by_text = _heads(view), similar.close.max(axis=1)
    order = np.argsort(-by_text, kind="stable")[:MOST_SENTENCES]
    return [
        (
            atlas.texts[numbers[similar.texts[at]]],
            heads[int(similar.close[at].argmax())],
            float(by_text[at]),
        )
        for at in order
    ]


def _heads(view: View) -> list[Head]:
    """The heads of the open kind of attention."""
    return [head for head in shown_atlas(view).atlas.heads if head.role == view.kind]


def _open(view: View, best: list[Close]) -> int:
    return min(view.choices(AtlasChoices).found, len(best)) - 1


def _most_similar(view: View, best: list[Close]) -> b.Blocks:
    """The pattern of the chosen sentence, next to the one that is searched for."""
    if not best:
        return
    text, head, _ = best[_open(view, best)]
    try:
        drawn = view_of(view, text, head)
    except InputProblem as problem:
        yield b.Hint(message(problem, view.lang), "info", warns=True)
        return
    title = place(view, head)
    yield _heatmap(drawn, drawn.trace.pattern(drawn.site.name)[drawn.head], "atlas.similar", title)
    yield b.SentenceLine("sentence-atlas", drawn, here=True)
    yield source_of(shown_atlas(view), text, head)


def _results(view: View, similar: Similar, best: list[Close]) -> b.Blocks:
    heads = _heads(view)
    yield b.Hero((b.Sentence("atlas-search", _reading(view, similar)),))
    yield b.Columns([_similar_heads(view, similar, heads), _sentences(view, best)])
    yield b.Formula(FORMULA, view.t("atlas.search_formula"))
    likeness = (HeadFeatures.of_heads, HeadFeatures.of_texts)
    yield b.Code((painted_features, features_of, *likeness, in_sentence))
    yield b.Numbers(
        lambda: {
            view.t("atlas.search_head"): [place(view, head) for head in heads],
            view.t("atlas.search_mean"): similar.over.round(4).tolist(),
            view.t("atlas.search_here"): similar.here.round(4).tolist(),
        }
    )


def _reading(view: View, similar: Similar) -> str:
    return view.t(
        "atlas.search_reading", like=fixed(float(similar.over.max())), count=len(similar.texts)
    )


def _similar_heads(view: View, similar: Similar, heads: list[Head]) -> list[b.Block]:
    names = shown_atlas(view).atlas.names
    order = np.argsort(-similar.over, kind="stable")[:MOST_HEADS].tolist()
    rows = [
        [
            short(heads[at]),
            fixed(float(similar.over[at])),
            fixed(float(similar.here[at])),
            kind_words(view, names[heads[at].number].kind),
        ]
        for at in order
    ]
    head = [view.t(f"atlas.search_{name}") for name in ("head", "mean", "here", "kind")]
    buttons = [
        b.Button(f"atlas.found.{neighbour.number}", short(neighbour), open_head(neighbour))
        for neighbour in (heads[at] for at in order[:5])
    ]
    title = b.Title(view.t("atlas.search_heads"), large=True)
    return [title, b.Table(head, rows, "lrrl"), b.Row(buttons, align="top")]


def _sentences(view: View, best: list[Close]) -> list[b.Block]:
    """The sentences; one of them is drawn."""
    title = view.t("atlas.search_sentences")

    def label(at: int) -> str:
        text, head, like = best[at]
        return f"{fixed(like)} · {short(head)} · {escape(beginning(text.source))}"

    picked = b.Pick(
        "atlas.found",
        title,
        {at: label(at) for at in range(len(best))},
        _open(view, best),
        lambda at: b.choose(found=at + 1),
        "list",
        b.Display(quiet=True),
    )
    return [b.Title(title, large=True), picked]


EXHIBIT = Exhibit(
    compute, show, inputs={**WHICH, "wanted": wanted_of}, wait=Wait(after="atlas.searched")
)
