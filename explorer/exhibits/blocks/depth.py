"""Depth of the untrained models of `residual`, and their final norm."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.blocks import residual


def show(answer: None, view: View) -> b.Blocks:
    """The controls, which stay usable while the models are computed."""
    yield from residual.controls(view)


EXHIBIT = Exhibit(None, show)
