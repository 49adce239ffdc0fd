"""What the page measures in a model that is no causal language model."""

from collections.abc import Iterator

from explorer.exhibits import block as b
from explorer.exhibits.exhibit import Exhibit
from explorer.exhibits.view import View


def show(answer: None, view: View) -> Iterator[b.Block]:
    """A note, if the model is a translator or reads both ways."""
    if view.sites_of("cross"):
        yield b.Note(view.t("circuits.translator"))
    elif not view.loaded.config.is_causal:
        yield b.Note(view.t("circuits.both_ways"))


EXHIBIT = Exhibit(None, show)
