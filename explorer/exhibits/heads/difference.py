"""The difference of two heads shown side by side."""

from functools import partial

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.saying import site_axes
from explorer.figures import heatmap


def show(answer: None, view: View) -> b.Blocks:
    """The weights of the second head minus the weights of the first."""
    one, other = Opened(view).shown
    title = view.t("heads.difference", one=one.name, other=other.name)
    yield b.Note(title)
    draw = partial(
        heatmap.difference,
        one.pattern,
        other.pattern,
        mask_before=one.mask,
        mask_after=other.mask,
        selected=view.row,
        words={**view.words("figures.heatmap"), "before": one.name, "after": other.name},
        **site_axes(view),
    )
    yield b.Chart("heads.difference", draw, title)


EXHIBIT = Exhibit(None, show, open=lambda view: len(Opened(view).selection.shown) == 2)
