"""Known links: derived from the task for the toy models, drawn by hand for some sentences."""

import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from explorer.analysis.alignment.links import Known, Links, score, strongest
from explorer.analysis.alignment.reading import Pair, Reading
from explorer.analysis.alignment.words import WordRow
from explorer.library import split_step
from models.pictures import letter_patches
from models.pictures.faces import split_face
from models.pictures.patches import Picture
from models.training.corpus import Task, solve
from models.training.home import asset

LENGTHS, SYMBOLS = (2, 10), 20
"""The shortest and longest sequences of the toy tasks, and the number of their symbols."""


def toy_of(name: str) -> Task | None:
    """The toy task of a shipped model, which has the task's name; None for other models."""
    base, _ = split_step(name)
    return next((task for task in get_args(Task) if task == base), None)


def known_of_task(task: Task, reading: Reading) -> Known | None:
    """The known links of a toy's own answer; None if the answer is wrong.

    A letter of a copied or reversed row comes from exactly one position. A sorted letter that
    occurs more than once may come from any of its occurrences: these links are possible, none is
    sure.
    """
    src, tgt = reading.src.labels, reading.tgt.labels
    if solve(task, src) != tgt:
        return None
    places, n = np.arange(len(src)), len(src)
    if task != "sort":
        sure = np.zeros((n, n), bool)
        sure[places, places if task == "copy" else n - 1 - places] = True
        return Known(sure, sure)
    possible = np.array(tgt)[:, None] == np.array(src)[None]
    counts = Counter(src)
    once = np.array([counts[letter] == 1 for letter in tgt])
    return Known(possible & once[:, None], possible)


def known_of_drawing(picture: Picture, reading: Reading) -> Known | None:
    """Where the letters of a drawn word are; None if it was not read correctly, or not drawn here.

    Each patch that touches the box of a letter is possible, none is sure.
    """
    drawn = letter_patches(reading.pair[0], picture)
    if reading.pair[1] != split_face(reading.pair[0])[0] or len(drawn) != len(reading.tgt):
        return None
    return Known(np.zeros_like(drawn), drawn)


@dataclass(frozen=True)
class GoldAlignment:
    """A pair with its hand-drawn links: (source part, target part, whether sure)."""

    pair: Pair
    links: tuple[tuple[str, str, bool], ...]


def drawn_by_hand(model: str) -> tuple[GoldAlignment, ...]:
    """The hand-drawn links for this model's pairs, or those of the reverse direction, transposed.

    Returns () if there are none for this model.
    """
    base, _ = split_step(model)
    for name, turned in ((base, False), ("-".join(base.split("-")[::-1]), True)):
        path = asset("alignments", f"{name}.toml")
        if "/" not in name and path.is_file():
            with path.open("rb") as file:
                return tuple(_by_hand(table, turned) for table in tomllib.load(file)["pairs"])
    return ()


def _by_hand(record: dict[str, str], turned: bool) -> GoldAlignment:
    links = []
    for link in record["links"].split():
        mark = min("=~", key=lambda mark: link.find(mark) % (len(link) + 1))
        source, target = link.split(mark)
        links.append((target, source, mark == "=") if turned else (source, target, mark == "="))
    pair = (record["source"], record["target"])
    return GoldAlignment(pair[::-1] if turned else pair, tuple(links))


def known_by_hand(drawn: GoldAlignment, reading: Reading) -> Known | None:
    """The drawn links between the words of a reading.

    None if a linked part is missing because the model's vocabulary lacks one of its characters.
    """
    shape = (len(reading.tgt), len(reading.src))
    sure, possible = np.zeros(shape, bool), np.zeros(shape, bool)
    for source, target, is_sure in drawn.links:
        ends = (_in_words(target, reading.tgt), _in_words(source, reading.src))
        if not all(ends):
            return None
        cells = np.ix_(*ends)
        possible[cells] = True
        if is_sure:
            sure[cells] = True
    return Known(sure, possible)


def _in_words(part: str, words: WordRow) -> list[int]:
    """The words that contain a part of the text; `part#2` is its second occurrence."""
    text, _, number = part.partition("#")
    wanted, at = text.replace(" ", "").encode(), -1
    for _ in range(int(number or 1)):
        at = words.letters.find(wanted, at + 1)
        if at < 0:
            return []
    end = at + len(wanted)
    return [n for n, (first, last) in enumerate(words.spans) if first < end and at < last]


def errors(readings: Sequence[Reading], known: Sequence[Known]) -> np.ndarray:
    """The alignment error rate of every head at both shifts, float [shift, head]."""
    shifts, heads = readings[0].weights.shape[:2]
    linked: list[Links] = [strongest(entry.weights) for entry in readings]
    return np.array(
        [
            [score([entry[shift, head] for entry in linked], known).error for head in range(heads)]
            for shift in range(shifts)
        ]
    )
