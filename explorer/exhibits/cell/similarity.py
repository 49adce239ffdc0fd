"""Step 2: the dot product, dimension by dimension."""

from functools import partial

import numpy as np

from explorer.exhibits import View, block as b
from explorer.exhibits.cell import place
from explorer.exhibits.cell.place import CellEffect
from explorer.figures.cell import products
from explorer.numbers import fixed


def show(found: CellEffect, view: View) -> b.Blocks:
    """The product of each dimension, and the largest one."""
    each = found.cell.products
    most = int(np.abs(each).argmax())
    values = {"dot": fixed(found.cell.dot), "dim": most, "most": fixed(float(each[most]))}
    words = view.t("cell.reading_similarity", **place.tokens(view), **values)
    draw = partial(products, each, words=view.words("figures.cell"))
    yield place.with_sentence(
        view, words, b.Chart("cell.products", draw, view.t("cell.stages.similarity"))
    )
    yield from place.small_print(view, found)


EXHIBIT = place.step("similarity", show)
