"""What the page measures in a model that is no causal language model."""

from explorer.exhibits import Exhibit, View, block as b


def show(answer: None, view: View) -> b.Blocks:
    """A note, if the model is a translator or reads both ways."""
    if view.sites_of("cross"):
        yield b.Note(view.t("circuits.translator"))
    elif not view.loaded.config.is_causal:
        yield b.Note(view.t("circuits.both_ways"))


EXHIBIT = Exhibit(None, show)
