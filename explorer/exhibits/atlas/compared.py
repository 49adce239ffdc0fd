"""Two models head by head, measured over the same sentences."""

from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from explorer.analysis.atlas.store import Atlas, Head, Text, alike_by_chance, name_of, numbers_of
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.atlas import shown
from explorer.exhibits.atlas.choices import AtlasChoices
from explorer.exhibits.atlas.measured import (
    MOST_TEXTS,
    WHICH,
    Which,
    atlas,
    measured,
    reads_language,
    which_for,
)
from explorer.exhibits.atlas.moments import steps_of
from explorer.exhibits.block import escape
from explorer.exhibits.saying import message, model_title
from explorer.numbers import fixed
from explorer.problems import InputProblem
from explorer.runs.passes import Steps
from explorer.text import script

MOST_ROWS = 12
"""Number of heads listed as differing most."""


@dataclass(frozen=True, eq=False)
class AtlasPair:
    """The atlases of two models over the same sentences, and the heads that both have."""

    one: Atlas
    two: Atlas
    heads: tuple[tuple[Head, Head], ...]


def compute(which: Which, other: Which | None) -> Steps[AtlasPair | InputProblem | None]:
    """`_compared`, or why one of the models cannot be measured."""
    try:
        return (yield from _compared(which, other))
    except InputProblem as problem:
        return problem


def _compared(which: Which, other: Which | None) -> Steps[AtlasPair | None]:
    """Both atlases: the files if these use the same corpus, else measured over the open model's
    sentences. None without another model, or if it reads another kind of input.

    Raises InputProblem.
    """
    if other is None:
        return None
    if not (which.texts or other.texts):
        one = yield from atlas.steps(which)
        two = yield from atlas.steps(other)
        if (one.about.digest, one.about.reverse) == (two.about.digest, two.about.reverse):
            return _paired(one, two)
    if is_other_family(which.model, other.model):
        return None
    texts = which.texts or texts_of((yield from atlas.steps(which)))
    theirs = turned(texts, other.model)
    one = yield from atlas.steps(Which(which.model, texts=texts, ablate=False))
    two = yield from atlas.steps(Which(other.model, texts=theirs, ablate=False))
    return _paired(one, two)


def _paired(one: Atlas, two: Atlas) -> AtlasPair:
    mates = ((head, two.of(head.role, head.layer, head.head)) for head in one.heads)
    return AtlasPair(one, two, tuple((head, mate) for head, mate in mates if mate is not None))


def texts_of(survey: Atlas, most: int = MOST_TEXTS) -> tuple[Text, ...]:
    """The sentences for comparing two models: the first one of each head of an atlas, then the
    second of each, and so on."""
    turns = zip_longest(*survey.best)
    numbers = dict.fromkeys(at for turn in turns for at in turn if at is not None)
    return tuple(survey.texts[number] for number in [*numbers][:most])


def turned(texts: tuple[Text, ...], model: str) -> tuple[Text, ...]:
    """Pairs in a model's direction: swapped if its source language is their target language."""
    if not texts or not texts[0].target:
        return texts
    language = reads_language(model)
    there, back = (
        script(" ".join(s)) for s in zip(*((t.source, t.target) for t in texts), strict=True)
    )
    if there == language or back != language:
        return texts
    return tuple(Text(text.target, text.source, text.credit) for text in texts)


def is_other_family(model: str, other: str) -> bool:
    """Whether only one of two models reads pairs. Raises InputProblem."""
    return cache.open_model(model).model.reads != cache.open_model(other).model.reads


def other_of(view: View) -> Which | None:
    """The atlas of the other model; None without one. `compute` says what is wrong with it."""
    name = view.choices(AtlasChoices).against
    try:
        return None if name in ("", view.loaded.name) else which_for(name)
    except InputProblem:
        return Which(name)


def _pick_other(view: View) -> b.Blocks:
    """The menu of models, and what to do if there is nothing to show yet."""
    now = view.choices(AtlasChoices).against
    label, why = view.t("atlas.against"), view.t("atlas.against_help")
    yield b.PickModel("atlas.against", label, now, lambda name: b.choose(against=name), why, 320)
    if now in ("", view.loaded.name) and not steps_of(view):
        yield b.Note(view.t("atlas.compare_none"))


def show(pair: AtlasPair | InputProblem | None, view: View) -> b.Blocks:
    """How many heads do the same in both models, and those that differ most."""
    yield from _pick_other(view)
    if isinstance(pair, InputProblem):
        yield b.Hint(message(pair, view.lang), "info", warns=True)
        return
    other = view.choices(AtlasChoices).against
    names = [model_title(view, name) for name in (view.loaded.name, other)]
    labels = {"one": escape(names[0]), "other": escape(names[1])}
    if pair is None:
        if other and is_other_family(view.loaded.name, other):
            yield b.Hint(view.t("atlas.other_family", other=labels["other"]), "info")
        return
    if not pair.heads:
        yield b.Hint(view.t("atlas.no_shared_heads", **labels), "info")
        return
    yield b.Sentence("atlas-compare", _reading(view, pair))
    yield b.Title(view.t("atlas.compare_most"))
    yield _table(view, pair, labels)
    yield b.Formula(shown.DIFFERENCE, view.t("atlas.compare_formula"))
    here = () if pair.one.about.digest else (measured,)
    yield b.Code((*here, numbers_of, name_of))
    yield b.Numbers(lambda: _numbers(view, pair, names))


def _numbers(view: View, pair: AtlasPair, names: list[str]) -> dict[str, list[object]]:
    """The names of all heads in both models."""
    both = zip(
        *((pair.one.names[a.number], pair.two.names[c.number]) for a, c in pair.heads), strict=True
    )
    sides = [[shown.name_words(view, name) for name in side] for side in both]
    places = [shown.place(view, head) for head, _ in pair.heads]
    return {view.t("place.head"): [*places], names[0]: [*sides[0]], f"{names[1]} ": [*sides[1]]}


def _reading(view: View, pair: AtlasPair) -> str:
    kinds = [
        (head.role, pair.one.names[head.number].kind, pair.two.names[mate.number].kind)
        for head, mate in pair.heads
    ]
    count = pair.one.counts["sentences"]
    return view.t(
        "atlas.compare_reading",
        same=sum(mine == theirs for _, mine, theirs in kinds),
        total=len(kinds),
        count=count,
        chance=fixed(alike_by_chance(kinds)),
        sentences=f"{count:,}",
    )


def _table(view: View, pair: AtlasPair, labels: dict[str, str]) -> b.Table:
    """The heads of which a measure differs most; other names are bold."""
    gaps = [
        float(np.nan_to_num(np.abs(one - two)).max())
        for one, two in (
            (pair.one.strengths[mine.number], pair.two.strengths[theirs.number])
            for mine, theirs in pair.heads
        )
    ]
    order = np.argsort(-np.array(gaps), kind="stable")[:MOST_ROWS]
    rows = []
    for mine, theirs in (pair.heads[at] for at in order):
        both = pair.one.names[mine.number], pair.two.names[theirs.number]
        words = [shown.name_words(view, name) for name in both]
        other = words[1] if both[0].kind == both[1].kind else f"**{words[1]}**"
        rows.append([shown.place(view, mine), words[0], other])
    return b.Table([view.t("place.head"), *labels.values()], rows, "lll")


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={**WHICH, "other": other_of},
    wait=Wait("atlas.measuring", after="atlas.measured", blocks=_pick_other),
)
