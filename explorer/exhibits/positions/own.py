"""The open model's positional encoding, and the sentence."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.exhibits.shared import ScreenChoices


def show(answer: None, view: View) -> b.Blocks:
    """The encoding, left out in presentation mode; the sentence where the part depends on it."""
    config = view.loaded.config
    if not view.choices(ScreenChoices).beamer:
        own = {"width": config.d_model, "limit": config.n_ctx}
        yield b.Note(view.t(f"positions.model_{config.positions}", **own))
    if view.one_of("part", tuple(PositionsChoices.parts)) not in ("table", "learned"):
        yield b.SentenceLine()
        yield b.Changes("positions.reset")


EXHIBIT = Exhibit(None, show)
