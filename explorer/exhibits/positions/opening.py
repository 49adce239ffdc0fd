"""The positional encoding of the open model: as a note above the pictures, and as code."""

from explorer.analysis.positions.changes import stack_module
from explorer.exhibits import View, block as b
from explorer.exhibits.choices import ScreenChoices
from models.positions import rotate
from models.rows import Stream


def opening(view: View, sentence: bool = True) -> b.Blocks:
    """The encoding, left out in presentation mode, and the `sentence` if the picture depends on
    it."""
    if not view.choices(ScreenChoices).beamer:
        yield b.Note(positions_said(view))
    if sentence:
        yield b.SentenceLine()
        yield b.Changes("positions.reset")


def positions_said(view: View) -> str:
    """The positional encoding of the open model in words."""
    config = view.loaded.config
    name = view.t("designs.positions", config.positions)
    return view.t("positions.encoding", config.position_type.acts, name=name)


def positions_at(view: View, stream: Stream) -> tuple[object, ...]:
    """The positional encoding of a stream, and the rotation code; () if there is none."""
    stack = stack_module(view.loaded, stream)
    acts = view.loaded.config.position_type.acts
    if stack is None or acts == "nothing":
        return ()
    return (stack.positions, rotate) if acts == "turns" else (stack.positions,)
