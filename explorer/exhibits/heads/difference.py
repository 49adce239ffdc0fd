"""The difference of two heads shown side by side."""

from functools import partial

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.saying import place_titles
from explorer.figures import heatmap


def show(answer: None, view: View) -> b.Blocks:
    """The weights of the second head minus the weights of the first."""
    one, other = Opened(view).shown
    title, site = view.t("heads.difference", one=one.name, other=other.name), view.site.name
    yield b.Note(title)
    draw = partial(
        heatmap.difference,
        one.pattern,
        other.pattern,
        view.trace.query_tokens(site),
        view.trace.key_tokens(site),
        mask_before=one.mask,
        mask_after=other.mask,
        selected=view.row,
        words={**view.words("figures.heatmap"), "before": one.name, "after": other.name},
        **place_titles(view),
    )
    yield b.Chart("heads.difference", draw, title)


EXHIBIT = Exhibit(None, show, open=lambda view: len(Opened(view).selection.shown) == 2)
