"""One mask in the conventions of different libraries, and the effect of mixing them up."""

import numpy as np
import torch

from explorer.analysis.cases import Result
from explorer.analysis.cases.notation import NOTATION, WRITTEN
from explorer.exhibits import Exhibit, View, block as b, picking
from explorer.exhibits.cases.outcome import grids_of, print_of, variant_of
from explorer.exhibits.masks.choices import READERS, RENDERINGS, MasksChoices
from explorer.figures.outcomes import written_mask


def show(result: Result, view: View) -> b.Blocks:
    """The renderings of this head's mask, the grid of pairs, and the chosen pair in full."""
    choices, keep = view.choices(MasksChoices), view.trace.mask(view.site.name)[view.head]
    yield b.Row(picking.pick_place(view, "masks"))
    yield b.Row([_rendering(view, keep, name) for name in RENDERINGS], align="top")
    if keep.all():
        yield b.Hint(view.t("cases.notation.all_open"))
    at = (f"masks.renderings.{choices.rendering}", f"masks.readers.{choices.reader}")
    yield from grids_of(view, NOTATION, result, at)
    rendering = picking.pick_one(view, "masks.rendering", RENDERINGS, choices.rendering)
    yield b.Row((rendering, picking.pick_one(view, "masks.reader", READERS, choices.reader)))
    yield from variant_of(view, NOTATION, result)
    yield from print_of(view, NOTATION, result)


def _rendering(view: View, keep: np.ndarray, name: str) -> b.Pane:
    """The mask in one convention."""
    title = view.t("masks.renderings", name)
    panel = (title, written_mask(keep, _spelt(WRITTEN[name](torch.tensor(keep)).numpy())))
    drawn = b.Matrices(f"masks.rendering.{name}", (panel,), captioned=False, words={"hint": ""})
    return b.Pane((b.Title(title), drawn, b.Note(view.t("masks.renders", name))), 170)


def _spelt(mask: np.ndarray) -> np.ndarray:
    """The values of a mask as text: T and F, 0 and 1, −∞, −1e9."""
    if mask.dtype == np.bool_:
        return np.where(mask, "T", "F")
    names = {1.0: "1", 0.0: "0", -np.inf: "−∞", -1e9: "−1e9"}
    return np.vectorize(lambda value: names[float(np.float64(value))], otypes=[str])(mask)


EXHIBIT = Exhibit(NOTATION.measure, show)
