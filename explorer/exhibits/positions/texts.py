"""The outputs for original and shuffled order, with and without positions."""

from explorer.analysis.positions.order import FourTexts, four_texts, reading_stream
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.exhibit import OUTPUT
from explorer.library import LoadedModel
from explorer.runs.edits import Edit
from explorer.runs.passes import Steps
from models.rows import Stream


def compute(
    loaded: LoadedModel, text: str, shuffle: int | None, edits: tuple[Edit, ...], stream: Stream
) -> Steps[FourTexts | None]:
    """The four texts if the shuffled sequence is the one that is read, and is another one. Raises
    InputProblem."""
    if stream != reading_stream(loaded):
        return None
    return (yield from four_texts(loaded, text, 1 if shuffle is None else shuffle, edits))


def show(texts: FourTexts | None, view: View) -> b.Blocks:
    """A table of the texts."""
    if texts is None:
        return
    yield b.Title(view.t("positions.texts"))
    rows = [
        (view.t("positions.settings.as_is"), texts.in_order, texts.shuffled),
        (view.t("positions.settings.without"), texts.in_order_without, texts.shuffled_without),
    ]
    without = view.loaded.config.position_type.acts == "nothing"
    if without:
        rows = rows[1:]
    head = ("", view.t("positions.in_order"), view.t("positions.shuffled"))
    yield b.Table(head, [(name, escape(one), escape(two)) for name, one, two in rows], "lll")
    if rows[0][1] == rows[0][2] and not without:
        yield b.Offer("shuffle")
    yield b.Code((four_texts,))


EXHIBIT = Exhibit(compute, show, needs=OUTPUT, wait=Wait("positions.writing"))
