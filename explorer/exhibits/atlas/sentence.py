"""One of the open head's best sentences, drawn as on Heads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from explorer.analysis.atlas.store import Head, Text
from explorer.components.heads_payload import HeadGrid, HeadsSelection
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, Wait, block as b
from explorer.exhibits.atlas.sentences import EXHIBIT as SENTENCES, kept_of, open_of
from explorer.exhibits.atlas.shown import AtlasView, shown_atlas
from explorer.exhibits.block import escape
from explorer.exhibits.heads.opened import Opened, grid_of
from explorer.exhibits.heads.picture import Values, measure_of, options, values_of
from explorer.exhibits.view import View, build
from explorer.runs.passes import Steps
from models.hooks import Role


@dataclass(frozen=True, eq=False)
class Linked:
    """The thumbnails of all heads, and a measure of each [layer, head] if one is chosen."""

    grid: HeadGrid
    measured: Values


def compute(opened: tuple[Run, Role, bool, str] | None) -> Steps[Linked | None]:
    """None if no sentence is open. Raises InputProblem."""
    if opened is None:
        return None
    run, role, by_words, measure = opened
    grid = yield from grid_of.steps(run, role, by_words)
    return Linked(grid, (yield from values_of(run, role, measure)))


def opened(view: View) -> tuple[Run, Role, bool, str] | None:
    """The run of the open sentence, and what is drawn of it; None if no sentence is open."""
    choice = choice_of(view)
    if choice is None:
        return None
    return choice.view.run, choice.view.kind, choice.words is not None, choice.measure or ""


def choice_of(view: View) -> Opened | None:
    """The heads of the open sentence; None if no sentence is open."""
    text = text_of(view)
    return None if text is None else Opened(view_of(view, text, shown_atlas(view).head))


def text_of(view: View) -> Text | None:
    """The open sentence; None if none passes the filters."""
    best = SENTENCES.answer(view)
    kept = [] if best is None else kept_of(best, view)
    return best.texts[open_of(kept, view)] if best is not None and kept else None


def view_of(view: View, text: Text, head: Head) -> View:
    """The view of a corpus sentence with `head` open. Raises InputProblem: it may be too long."""
    return build(replace(view.state, model=view.loaded.name, **_open(text, head)), view.dark)


def _open(text: Text, head: Head) -> dict[str, Any]:
    """The choices that open a corpus sentence, as it is, at `head`."""
    return {
        "text": text.source,
        "target": text.target or None,
        "site": head.role,
        "layer": head.layer,
        "head": head.head,
        "row": None,
        "edits": (),
        "pads": None,
    }


def show(linked: Linked | None, view: View) -> b.Blocks:
    """The sentence, all heads with the open one large, and its source."""
    choice, text = (None, None) if linked is None else (choice_of(view), text_of(view))
    if linked is None or choice is None or text is None:
        return
    shown = shown_atlas(view)
    yield b.SentenceLine("sentence-atlas", choice.view, here=True)
    name, change = choice.measure, partial(_picked, choice, shown.head)
    measure = None if name is None else measure_of(view, name, linked.measured)
    yield b.AllHeads("atlas.view", linked.grid, options(choice, measure), change)
    yield source_of(shown, text, shown.head)


def _picked(choice: Opened, head: Head, selection: HeadsSelection) -> b.Change | None:
    """Open another head, which has sentences of its own."""
    opened = selection.opened
    if opened is None or opened[0] >= len(choice.sites) or opened == (head.layer, head.head):
        return None
    return b.choose(layer=opened[0], head=opened[1], sentence=1)


def source_of(shown: AtlasView, text: Text, head: Head) -> b.Row:
    """A button that opens a corpus sentence on Heads, and its authors."""
    label, authors = shown.view.t("atlas.open_sentence"), credits(shown, [text])
    change = b.choose(visit="heads", elsewhere=True, **_open(text, head))
    button = b.Button("atlas.open_sentence", label, change, "open_in_full")
    return b.Row((button, *([b.Note(authors)] if authors else [])), align="center")


def credits(shown: AtlasView, texts: Sequence[Text]) -> str:
    """The authors and licences of the sentences."""
    parts = [*dict.fromkeys(text.credit for text in texts if text.credit), shown.atlas.about.credit]
    return escape(" · ".join(part for part in parts if part))


EXHIBIT = Exhibit(
    compute, show, inputs={"opened": opened}, wait=Wait("heads.working", after="atlas.sentences")
)
