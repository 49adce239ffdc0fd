"""The sentence, and the user's masks that the model is tested with."""

from explorer.exhibits import Exhibit, View, block as b, saying
from explorer.runs.edits import about_masks


def show(answer: None, view: View) -> b.Blocks:
    """The sentence, and the edits with a button to undo them."""
    yield b.SentenceLine()
    edits = [edit for edit in view.trace.edits if about_masks(edit)]
    if edits:
        named = " · ".join(f"**{saying.name_edit(view, edit)}**" for edit in edits)
        words, undo = view.t("certificate.edited", edits=named), view.t("edits.reset")
        reset = b.Button("certificate.reset", undo, b.choose(edits=()))
        yield b.Row((b.Prose(words), reset), align="center")


EXHIBIT = Exhibit(None, show)
