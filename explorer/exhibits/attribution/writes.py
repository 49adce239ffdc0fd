"""Logit decomposition: the next word's logit as a sum, and one head's part of it by key."""

import math
from functools import partial

import numpy as np

from explorer.analysis.attribution import writes as written
from explorer.analysis.attribution.ledger import largest
from explorer.analysis.attribution.writers import Detail, output, writers_at
from explorer.analysis.attribution.writes import Writes, silence
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.choices import AttributionChoices
from explorer.exhibits.attribution.place import (
    detail_of,
    group_names,
    in_half_precision,
    opening,
    pick_detail,
    whether_it_adds_up,
    writer_name,
)
from explorer.exhibits.attribution.words import (
    notes,
    pick_position,
    pick_words,
    position_of,
    token_name,
    two_words,
    words_of,
)
from explorer.exhibits.needs import OUTPUT
from explorer.exhibits.saying import quoted, quoted_at
from explorer.figures.attribution import ranking
from explorer.numbers import compact, percent, signed
from explorer.runs.passes import Steps

MOST = 18
"""Most bars in the ranking; the smallest terms share the last one."""


@cached
def writes(run: Run, position: int, words: tuple[int, int], detail: Detail) -> Steps[Writes]:
    """The logits of two words as sums. Raises InputProblem; IndexError if out of range."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return (yield from written.writes(loaded, traced, position, *words, detail))


def show(found: Writes, view: View) -> b.Blocks:
    """The terms of the logit, or of the difference, and the choice of one to remove."""
    yield from opening(view)
    rival = words_of(view)[1]
    yield b.Row((pick_position(view), *pick_words(view), pick_detail(view)))
    yield from notes(view)
    values = values_of(found, rival)
    reading = b.Sentence("writes", _reading(view, found, values, rival))
    yield b.Hero((reading, _drawn(view, found, values, rival)))
    config = view.loaded.config
    noted = {"logit_cap": config.logit_cap is not None, "gate": config.head_net}
    for name, here in {**noted, "precision": in_half_precision(view)}.items():
        if here:
            yield b.Note(view.t(f"attribution.note_{name}"))
    if rival is None:
        yield b.Note(view.t("attribution.check_two"))
    else:
        yield b.Title(view.t("attribution.check"), large=True)
        yield _pick_writer(view, found)
    yield b.Formula.of(
        view.t("attribution.writes_formula"),
        r"\ell_w = \sum_a x_a \cdot U_w + b_w, \qquad "
        r"\ell_w - \ell_v = \ln \frac{p_w}{p_v}",
        r"x_{h} = \sum_j a_{ij}\, v_j W_O^{h}",
    )
    yield b.Code((written.writes, output, writers_at, *([] if rival is None else [silence])))
    yield b.Numbers(lambda: _numbers(view, found))


def values_of(found: Writes, rival: int | None) -> np.ndarray:
    """The terms: of the word's logit, or of its difference from the rival's."""
    return found.shares if rival is None else found.differences


def to_remove(found: Writes, rival: int | None, taken: int | None) -> tuple[list[int], int]:
    """The writers but the biases, the largest first, and the chosen one, by default the first."""
    ranked = np.argsort(-np.abs(values_of(found, rival)), kind="stable").tolist()
    order: list[int] = [at for at in ranked if found.writers[at].kind != "bias"]
    return order, taken if taken is not None and taken in order else order[0]


def _pick_writer(view: View, found: Writes) -> b.Pick:
    rival = words_of(view)[1]
    values = values_of(found, rival)
    order, writer = to_remove(found, rival, view.choices(AttributionChoices).taken)

    def label(at: int) -> str:
        return f"{writer_name(view, found.writers[at])} ({signed(float(values[at]))})"

    title = view.t("attribution.take")
    return b.Pick("attribution.taken", title, order, writer, label, "taken", menu=True, width=260)


def _drawn(view: View, found: Writes, values: np.ndarray, rival: int | None) -> b.Chart:
    """The terms of the logit, or of the difference, as a ranking."""
    groups = largest(found.writers, values, MOST)
    extra = [(view.t("attribution.rest"), _between(found.rests, rival))]
    if view.loaded.config.logit_cap is not None:
        extra.insert(0, (view.t("attribution.cap"), _between(found.caps, rival)))
    free = np.array(
        [found.lost[g.members[0]] if g.writer and rival is not None else np.nan for g in groups]
        + [np.nan] * len(extra)
    )
    loaded = view.loaded
    title = view.t(
        "attribution.logit_of" if rival is None else "attribution.logit_between",
        word=token_name(loaded, found.word),
        other=token_name(loaded, found.other),
    )
    draw = partial(
        ranking,
        [*group_names(view, groups), *(name for name, _ in extra)],
        np.array([*(group.of(values) for group in groups), *(value for _, value in extra)]),
        free=free if rival is not None else None,
        title=title,
        words=view.words("figures.attribution"),
    )
    return b.Chart("attribution.shares", draw, title)


def _between(two: tuple[float, float], rival: int | None) -> float:
    """The first number, or its difference from the second."""
    return two[0] if rival is None else two[0] - two[1]


def _reading(view: View, found: Writes, values: np.ndarray, rival: int | None) -> str:
    trace, loaded = view.trace, view.loaded
    most, least = int(values.argmax()), int(values.argmin())
    words = {
        "before": quoted_at(view, trace.tgt_str_tokens, found.position),
        "word": quoted(view, token_name(loaded, found.word)),
        "chance": percent(found.probabilities[0]),
        "total": signed(_between(found.logits, rival)),
        "most": writer_name(view, found.writers[most]),
        "up": signed(float(values[most])),
        "least": writer_name(view, found.writers[least]),
        "down": signed(float(values[least])),
        "sum": whether_it_adds_up(view, _between(found.rests, rival), values),
    }
    if rival is None:
        return view.t("attribution.read_logit", **words)
    difference = found.logits[0] - found.logits[1]
    return view.t(
        "attribution.read_more" if difference >= 0 else "attribution.read_less",
        other=quoted(view, token_name(loaded, found.other)),
        other_chance=percent(found.probabilities[1]),
        times=_times(math.exp(min(abs(difference), 300))),
        **words,
    )


def _times(ratio: float) -> str:
    """Format a probability ratio: 1.8, 310."""
    return f"{ratio:.1f}" if ratio < 9.95 else compact(float(f"{ratio:.2g}"))


def _numbers(view: View, found: Writes) -> dict[str, list[object]]:
    loaded = view.loaded
    return {
        "": [writer_name(view, writer) for writer in found.writers],
        token_name(loaded, found.word): np.round(found.shares, 5).tolist(),
        f"{token_name(loaded, found.other)} ": np.round(found.other_shares, 5).tolist(),
        view.t("attribution.difference"): np.round(found.differences, 5).tolist(),
    }


LOGIT = {
    "position": lambda view: position_of(view)[0],
    "words": two_words,
    "detail": detail_of,
    "compared": lambda view: words_of(view)[1] is not None,
}
"""The inputs of `writes`, and whether two words are compared."""
EXHIBIT = Exhibit(
    writes, show, OUTPUT, inputs=LOGIT, wait=Wait("attribution.working", blocks=opening)
)
