"""The natural text that is read far beyond the training length."""

from explorer.analysis.positions.beyond import MAX_CHARS, can_go_beyond
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.library import LoadedModel
from explorer.text import long_story, model_name

WRITER = "stories"


def reader_of(loaded: LoadedModel, shelf: tuple[str, ...]) -> LoadedModel | None:
    """The open model if it can exceed its training length, else the listed language model."""
    if can_go_beyond(loaded):
        return loaded
    return cache.open_model(WRITER) if WRITER in shelf else None


def show(answer: None, view: View) -> b.Blocks:
    """A box to edit the text."""
    limit, reader = view.loaded.config.longest, reader_of(view.loaded, cache.models())
    if limit is not None or reader is not None:
        yield b.Title(view.t("positions.natural"))
    if limit is not None:
        yield b.Note(view.t("positions.natural_learned", limit=limit))
    if reader is not None:
        name = model_name(reader.name, lang=view.lang)
        label = view.t("positions.natural_text", name=name, limit=f"{MAX_CHARS:,}")
        story = view.choices(PositionsChoices).story or long_story()
        yield b.TextBox("positions.story", label, story, _changed, 140)


def _changed(text: str) -> b.Change:
    """Store the edited text; an empty box, like the unchanged text, selects the built-in one."""
    return b.choose(story=None if text.strip() in ("", long_story()) else text.strip())


EXHIBIT = Exhibit(None, show)
