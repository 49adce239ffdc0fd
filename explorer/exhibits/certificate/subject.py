"""The sentence, and the user's masks that the model is tested with."""

from collections.abc import Iterator

from explorer.exhibits import block as b
from explorer.exhibits import saying
from explorer.exhibits.exhibit import Exhibit
from explorer.exhibits.view import View
from explorer.runs.edits import about_masks


def show(answer: None, view: View) -> Iterator[b.Block]:
    """The sentence, and the edits with a button to undo them."""
    yield b.SentenceLine()
    edits = [edit for edit in view.trace.edits if about_masks(edit)]
    if edits:
        named = " · ".join(f"**{saying.name_edit(view, edit)}**" for edit in edits)
        words, undo = view.t("certificate.edited", edits=named), view.t("edits.reset")
        reset = b.Button("certificate.reset", undo, b.choose(edits=()))
        yield b.Row((b.Prose(words), reset), align="center")


EXHIBIT = Exhibit(None, show)
