"""What all exhibits of the page share: the reverse model, the ranking of heads, the aligner."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from explorer.analysis.alignment.agreement import Aligner, one_head
from explorer.analysis.alignment.aligned import Alignment, align
from explorer.analysis.alignment.reading import Reading
from explorer.analysis.alignment.study import Study, other_direction
from explorer.engine import cache
from explorer.exhibits import block as b
from explorer.exhibits.alignment.choices import NO_MODEL, READS, ROWS, AlignmentChoices
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import head_name
from explorer.exhibits.view import View
from explorer.text import model_name


def back_of(view: View) -> str | None:
    """The reverse model: the chosen one, or the one suggested by the name."""
    asked = view.choices(AlignmentChoices).back
    options = cache.translators(cache.models())
    if asked == NO_MODEL:
        return None
    return asked if asked in options else other_direction(view.loaded.name, options)


@dataclass(frozen=True, eq=False)
class AlignmentView:
    """A view with the results for all heads."""

    view: View
    study: Study

    @property
    def back(self) -> str | None:
        """The reverse model."""
        return back_of(self.view)

    @property
    def name(self) -> str:
        """The source of links: `mean`, `best` or `head`."""
        return self._chosen[0]

    @property
    def place(self) -> tuple[int, int]:
        """Shift and number of the current head: the open one, or the best."""
        return self._chosen[1]

    @property
    def _chosen(self) -> tuple[str, tuple[int, int], Aligner]:
        """A manually opened head applies to one direction; the other one keeps its aligner."""
        study, chosen = self.study, self.view.choices(AlignmentChoices)
        if chosen.aligner == "head":
            at = self.view.layer, self.view.head
            number = study.heads.index(at) if at in study.heads else 0
            place = ROWS.index(chosen.word_row), number
            weights = one_head(study.scores.shape, *place)
            return "head", place, replace(study.aligner(""), forward=weights)
        aligner = study.aligner(chosen.aligner)
        shift, head = divmod(int(study.best.forward.argmax()), len(study.heads))
        return "mean" if aligner is study.mean else "best", (shift, head), aligner

    def align(self, readings: tuple[Reading, Reading | None]) -> Alignment:
        """The links of a pair, with the chosen aligner."""
        return align(*readings, self._chosen[2])

    def words_of(self, shift: int, head: int) -> str:
        """A head and its row in words."""
        layer, number = self.study.heads[head]
        return self.view.t("alignment.places", ROWS[shift], layer=layer + 1, head=number + 1)


def pick_back(view: View) -> b.Pick:
    """The reverse model, or none."""

    def label(name: str) -> str:
        if name == NO_MODEL:
            return view.t("alignment.no_back")
        return model_name(name, lang=view.lang)

    options, now = (NO_MODEL, *cache.translators(cache.models())), back_of(view) or NO_MODEL
    more = b.More(said=label, form="menu", width=230, help=view.t("alignment.back_help"))
    return pick_one(view, "alignment.back", options, now, **more)


def pick_aligner(choice: AlignmentView) -> tuple[b.Row, ...]:
    """The aligner and the reverse model."""
    view, heads = choice.view, choice.study.heads
    names = ("mean", "best", "head") if choice.study.mean is not None else ("best", "head")
    aligner = pick_one(view, "alignment.aligner", names, choice.name, said="alignment.aligners")
    row = b.Row((aligner, pick_back(view)))
    if choice.name != "head":
        return (row,)
    more = b.More(
        said=lambda head: head_name(view, heads[head]),
        change=partial(open_head, choice.study),
        form="menu",
        width=200,
    )
    head = pick_one(view, "alignment.head", range(len(heads)), choice.place[1], **more)
    row_now = view.choices(AlignmentChoices).word_row or READS
    rows = pick_one(view, "alignment.row", ROWS, row_now, "word_row")
    return (row, b.Row((head, rows)))


def open_head(study: Study, head: int, **more: str) -> b.Change:
    """Open one cross-attention matrix."""
    layer, number = study.heads[head]
    place: dict[str, Any] = {"site": "cross", "layer": layer, "head": number}
    return b.choose(elsewhere=True, aligner="head", **place, **more)
