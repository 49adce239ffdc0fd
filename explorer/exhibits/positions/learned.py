"""Learned position vectors compared with sinusoids: the effect and the limits of training."""

from functools import partial

import numpy as np

from explorer.analysis.positions.encoding import gram
from explorer.analysis.positions.learned import (
    PositionVectors,
    alike_by_distance,
    by_chance,
    learned as find_learned,
)
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import pick_stream, titled
from explorer.figures.curves import lines
from explorer.figures.positions import encoding as figures
from explorer.library import LoadedModel
from explorer.numbers import fixed, number, share
from explorer.text import model_name

TWIN = "twin-learned"
CLOSE = 0.5
"""Smallest cosine at which neighbours count as close."""


def compute(
    loaded: LoadedModel, shelf: tuple[str, ...], chosen_stream: str
) -> tuple[LoadedModel, PositionVectors] | None:
    """The open model's vectors if it has learned positions, else those of a listed twin, if any."""
    if loaded.config.positions != "learned":
        if TWIN not in shelf:
            return None
        loaded = cache.open_model(TWIN)
    reads = loaded.model.reads
    stream = next((each for each in reads if each == chosen_stream), reads[0])
    return loaded, find_learned(loaded, stream)


def show(answer: tuple[LoadedModel, PositionVectors] | None, view: View) -> b.Blocks:
    """Both tables, their dot products, the similarity of positions, and the change in training."""
    if answer is None:
        yield b.Hint(view.t("positions.learned_nobody"))
        return
    loaded, found = answer
    own, limit = loaded.name == view.loaded.name, loaded.config.n_ctx
    name = model_name(loaded.name, lang=view.lang)
    key = f"positions.learned_{'computed' if found.computed else 'own' if own else 'lead'}"
    yield b.Prose(view.t(key, name=name, limit=limit))
    yield from pick_stream(view, "positions.stream.learned", loaded.model.reads)
    yield b.Sentence("learned", _neighbours(view, found))
    words = view.words("figures.positions")
    for what in ("table", "gram"):
        columns = []
        for source in ("sines", "vectors"):
            values: np.ndarray = getattr(found, source)
            draw = partial(figures.table, values, words=words)
            if what == "gram":
                draw = partial(figures.gram, gram(values), words=words)
            title = view.t(f"positions.learned_{what}_{source}")
            columns.append(titled(view, f"positions.learned.{what}.{source}", draw, title))
        yield b.Columns(columns)
    yield b.Columns((_alike(view, found), _moved(view, found)))
    if reach := _reach(view, found):
        yield b.Prose(reach)
    yield b.Formula.of(
        view.t("positions.learned_formula"),
        r"\cos(p_i, p_j) = \frac{p_i \cdot p_j}{\lVert p_i\rVert\,\lVert p_j\rVert},\qquad "
        r"\text{moved}_i = \frac{\lVert p_i - p_i^{0}\rVert}{\lVert p_i^{0}\rVert}",
    )
    yield b.Code((find_learned, loaded.model.last_stack.positions, gram, alike_by_distance))
    yield b.Numbers(lambda: _numbers(view, found))


def _alike(view: View, found: PositionVectors) -> tuple[b.Block, ...]:
    """The mean cosine by distance, over the positions seen in training."""
    n = max(2, found.n_trained)
    tables = {"sines": found.sines, "vectors": found.vectors, "before": found.before}
    tables["added"] = found.added
    shown = {name: values[:n] for name, values in tables.items() if values is not None}
    known = found.reached is not None
    note = "positions.learned_alike_note" if known else "positions.learned_alike_all"
    draw = partial(
        lines,
        np.arange(n),
        np.stack([alike_by_distance(values) for values in shown.values()]),
        [view.t(f"positions.learned_curve_{name}") for name in shown],
        **view.axes("figures.positions.distance", "positions.learned_cosine"),
    )
    title = view.t("positions.learned_alike")
    return titled(view, "positions.learned.alike", draw, title, view.t(note, last=n - 1))


def _moved(view: View, found: PositionVectors) -> tuple[b.Block, ...]:
    """The change of each vector in training."""
    title = view.t("positions.learned_moved")
    if found.moved is None or found.reached is None:
        return b.Title(title), b.Note(view.t("positions.learned_unknown"))
    draw = partial(
        lines,
        np.arange(len(found.moved)),
        100 * found.moved[None],
        [title],
        marked_x=found.reached - 0.5,
        steps=True,
        from_zero=True,
        **view.axes("figures.positions.position", "positions.learned_moved_axis"),
    )
    note = view.t("positions.learned_moved_note")
    return titled(view, "positions.learned.moved", draw, title, note)


def _neighbours(view: View, found: PositionVectors) -> str:
    """Whether neighbours are more similar than all pairs are, by their mean cosine."""
    n = max(2, found.n_trained)
    sines, alike = (alike_by_distance(each[:n]) for each in (found.sines, found.vectors))
    own, far = alike[1], np.average(alike[1:], weights=np.arange(n - 1, 0, -1))
    chance = by_chance(n, found.vectors.shape[1])
    state = "none" if own - far <= chance else "close" if own > CLOSE else "trace"
    values = {"sines": sines[1], "own": own, "far": far, "chance": chance}
    numbers = {name: fixed(float(value)) for name, value in values.items()}
    return view.t(f"positions.learned_{state}", **numbers)


def _reach(view: View, found: PositionVectors) -> str:
    """The number of positions seen in training, and the state of the others."""
    if found.moved is None or found.reached is None:
        return ""
    n, total = found.reached, len(found.moved)
    assert found.added is not None
    added = fixed(float(alike_by_distance(found.added[: max(2, n)])[1]))
    chance = fixed(by_chance(n, found.added.shape[1]))
    went = share(float(found.moved[:n].mean())) if n else share(0)
    if n == total:
        return view.t(
            "positions.learned_reach_all", last=n - 1, moved=went, added=added, chance=chance
        )
    still = number(100 * float(found.moved[n:].max()))
    values = {"count": n, "first": n, "last": total - 1, "moved": went, "still": still}
    values |= {"added": added, "chance": chance}
    return view.t("positions.learned_reach", **values)


def _numbers(view: View, found: PositionVectors) -> dict[str, list[object]]:
    lengths = np.linalg.norm(found.vectors, axis=1)
    columns: dict[str, list[object]] = {
        view.t("figures.positions.position"): list(range(len(lengths))),
        view.t("positions.size"): lengths.round(3).tolist(),
    }
    if found.moved is not None:
        columns[view.t("positions.learned_moved_axis")] = (100 * found.moved).round(3).tolist()
    return columns


EXHIBIT = Exhibit(compute, show)
