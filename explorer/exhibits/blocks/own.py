"""Norm, placement, feed-forward network and eps of the open model."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.shared import ScreenChoices
from explorer.numbers import number


def show(answer: None, view: View) -> b.Blocks:
    """One line, left out in presentation mode."""
    config = view.loaded.config
    if not view.choices(ScreenChoices).beamer:
        norm, ffn = view.t(f"blocks.{config.norm}"), view.t(f"blocks.ffn_{config.ffn}")
        place = view.t(f"figures.residual.{config.norm_placement}")
        words = {"norm": norm, "placement": place, "ffn": ffn, "eps": number(config.norm_eps)}
        yield b.Note(view.t("blocks.model", **words))


EXHIBIT = Exhibit(None, show)
