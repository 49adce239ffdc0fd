"""The accuracy of the listed toy models, for sequences shorter and longer than in training."""

from collections.abc import Generator
from functools import partial

import numpy as np

from explorer.analysis.positions.length import N_ROWS, ByLength, Toy, by_length, toy_of
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import titled
from explorer.figures.curves import lines
from explorer.numbers import share

BEYOND = 6
"""Largest excess length, in letters, at which the toy models are tested."""
Toys = dict[str, tuple[Toy, ByLength]]


def compute(shelf: tuple[str, ...]) -> Generator[tuple[int, int], bool, Toys]:
    """The accuracy by length of each toy model."""
    toys = {name: toy for name in shelf if (toy := toy_of(name)) is not None}
    lengths = range(2, max((toy.longest for toy in toys.values()), default=0) + BEYOND + 1)
    found: Toys = {}
    for done, (name, toy) in enumerate(toys.items()):
        yield done, len(toys)
        found[name] = toy, by_length(cache.open_model(name), toy, lengths)
    return found


def show(answer: Toys, view: View) -> b.Blocks:
    """The share of correct sequences by length."""
    if not answer:
        return
    toys, found = zip(*answer.values(), strict=True)
    longest, shortest = max(toy.longest for toy in toys), min(toy.shortest for toy in toys)
    lengths = np.array(found[0].lengths)
    draw = partial(
        lines,
        lengths,
        100 * np.stack([each.exact for each in found]),
        list(answer),
        marked_x=longest + 0.5,
        height=300,
        **view.axes("positions.row_length", "positions.rows_right"),
    )
    note = view.t("positions.toys_note", shortest=shortest, longest=longest, rows=N_ROWS)
    yield from titled(view, "positions.toys", draw, note=note)
    within = lengths <= longest
    means = {
        "within": [each.exact[within] for each in found],
        "beyond": [each.exact[-1] for each in found],
        "letters": [each.letters[-1] for each in found],
    }
    shares = {name: share(float(np.mean(each))) for name, each in means.items()}
    said = view.t("positions.read_toys", longest=longest, most=lengths[-1], **shares)
    yield b.Sentence("toys", said)
    yield b.Code((by_length,))
    exact = {name: each.exact.round(3).tolist() for name, (_, each) in answer.items()}
    yield b.Numbers(lambda: {view.t("positions.row_length"): lengths.tolist(), **exact})


EXHIBIT = Exhibit(compute, show, working="positions.toys_working")
