"""Depth of the untrained models of `residual`, and their final norm."""

from collections.abc import Iterator

from explorer.exhibits.block import Block
from explorer.exhibits.blocks import residual
from explorer.exhibits.exhibit import Exhibit
from explorer.exhibits.view import View


def show(answer: None, view: View) -> Iterator[Block]:
    """The controls, which stay usable while the models are computed."""
    yield from residual.controls(view)


EXHIBIT = Exhibit(None, show)
