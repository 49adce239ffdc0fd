"""The positional encoding of the model, for the Code panels."""

from explorer.analysis.positions.changes import stack_module
from explorer.exhibits import View
from models.positions import rotate
from models.rows import Stream


def positions_at(view: View, stream: Stream) -> tuple[object, ...]:
    """The positional encoding of a stream, and the rotation code; () if there is none."""
    stack = stack_module(view.loaded, stream)
    acts = view.loaded.config.position_type.acts
    if stack is None or acts == "nothing":
        return ()
    return (stack.positions, rotate) if acts == "turns" else (stack.positions,)
