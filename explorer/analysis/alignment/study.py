"""Rank all cross-attention heads by alignment: chosen on half of the sentences, tested on the rest.

Heads are ranked by the best evidence available: agreement with the reverse model; else a known
answer (of a toy's task, or where each letter was drawn); else only the sharpness of their
attention, which does not show that they attend to a translation, and the page says so.
Known links are derived from the task for the toy models, and drawn by hand for some sentences.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.alignment.agreement import (
    Aligner,
    Heads,
    agreed,
    agreement,
    along_diagonal,
    best_pair,
    learn,
    one_head,
)
from explorer.analysis.alignment.aligned import align
from explorer.analysis.alignment.links import Known, LinkQuality, Links, diagonal, score, strongest
from explorer.analysis.alignment.reading import (
    Pair,
    Reading,
    heads_of,
    read,
    read_back,
    readable,
    translated,
)
from explorer.analysis.alignment.words import WordRow
from explorer.analysis.roles import AttentionRows
from explorer.library import LoadedModel, split_step
from explorer.problems import InputProblem
from explorer.runs.passes import Steps
from models.pictures import letter_patches
from models.pictures.faces import split_face
from models.pictures.patches import Picture
from models.training.corpus import Task, solve, task_pairs
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
    """The hand-drawn links for this model's pairs, or for the reverse direction, transposed.

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


Basis = Literal["agreement", "known", "sharpness"]
Source = Literal["hand", "task", "drawn"]
Result = TypeVar("Result")
TOY_ROWS, TOY_SEED = 40, 27
PIECES = 4
_DIRECTION = re.compile(r"(.*?)([a-z]{2,3})-([a-z]{2,3})")


@dataclass(frozen=True, eq=False)
class Checked:
    """The chosen aligners evaluated against known links, on pairs not used for the choice.

    `errors` [shift, head] is the alignment error rate of every single head; `scores` has the scores
    of the aligners "best" and "mean", `diagonal` the scores of the diagonal baseline.
    """

    source: Source
    n_pairs: int
    n_links: int
    errors: Heads
    diagonal: LinkQuality
    scores: dict[str, LinkQuality] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Study:
    """All heads of a model, by (layer, head), and the aligners chosen from them.

    `scores` [shift, head] rates each head by the `basis` on the pairs learned from, 0 to 1: the F1
    of its links with the best head of the other model, 1 - the error rate, or the information in
    its rows as a share of the maximum. `diagonal` is the agreement of a head along the diagonal.
    `mean` and `diagonal` are None without the other model. `held` rates both aligners in the same
    way on the held-out pairs.
    """

    heads: tuple[tuple[int, int], ...]
    basis: Basis
    scores: Heads
    best: Aligner
    mean: Aligner | None
    diagonal: float | None
    n_learned: int
    n_held: int
    held: dict[str, float]
    checked: Checked | None

    def aligner(self, name: str) -> Aligner:
        """The aligner called `best` or `mean`, if there is one; "" takes the one that agrees more
        on the held-out pairs."""
        if self.mean is None or name == "best":
            return self.best
        return self.mean if name == "mean" or self.held["mean"] >= self.held["best"] else self.best

    def ranked(self) -> list[tuple[int, int]]:
        """All (shift, head), the highest score first."""
        order = np.argsort(-self.scores, axis=None, kind="stable")
        return [divmod(int(at), self.scores.shape[1]) for at in order]


def other_direction(name: str, translators: Sequence[str]) -> str | None:
    """Which of the available translators is the reverse of this one; None if there is none.

    A model called en-zh is paired with zh-en, whatever prefix the names have. Copying and reversing
    are their own inverses. The twins generate Chinese.
    """
    base, _ = split_step(name)
    toy = toy_of(base)
    if toy is not None:
        return base if toy != "sort" and base in translators else None
    if base.startswith("twin-"):
        return "zh-en" if "zh-en" in translators else None
    name_parts = _DIRECTION.fullmatch(base)
    turned = "{0}{2}-{1}".format(*name_parts.groups()) if name_parts else ""
    return turned if turned in translators else None


def study(
    loaded: LoadedModel,
    back: LoadedModel | None,
    sentences: Sequence[str],
    back_sentences: Sequence[str] = (),
) -> Steps[Study]:
    """Rank the heads, choose aligners, and measure the choice.

    The pairs are the model's own translations of `sentences`, and the other model's translations of
    `back_sentences`, swapped; for a toy they are rows of its task. Every second pair is learned
    from, starting with the second, so that the sentence that opens the page is held out. Pairs that
    one of the models cannot read are left out.

    Raises InputProblem, also for fewer than two pairs, and ValueError for a model without
    cross-attention.
    """
    toy = toy_of(loaded.name)
    pairs = tuple(task_pairs(toy, TOY_ROWS, LENGTHS, SYMBOLS, TOY_SEED)) if toy else ()
    if not toy:
        pairs = yield from _counted(translated(loaded, sentences), len(sentences), 0)
    if back is not None and back_sentences and not toy:
        written = translated(back, back_sentences)
        turned = yield from _counted(written, len(back_sentences), 1)
        pairs = (*pairs, *((target, source) for source, target in turned))
    pairs = tuple(pair for pair in pairs if readable(loaded, pair))
    if back is not None:
        pairs = tuple(pair for pair in pairs if readable(back, pair[::-1]))
    if len(pairs) < 2:
        raise InputProblem("too_few_pairs")
    readings = yield from _counted(read(loaded, pairs), len(pairs), 2)
    backs = None
    if back is not None:
        backs = yield from _counted(read_back(back, readings), len(pairs), 3)
    learned, held = slice(1, None, 2), slice(0, None, 2)
    picture = loaded.config.picture
    known: list[Known | None] = []
    if toy:
        known = [known_of_task(toy, reading) for reading in readings]
    elif picture:
        known = [known_of_drawing(picture, reading) for reading in readings]
    if not all(any(links is not None for links in known[half]) for half in (learned, held)):
        known = []  # an untrained model: no answer is right
    along = None
    if backs is not None:
        basis: Basis = "agreement"
        table = agreement(readings[learned], backs[learned])
        scores, best = table.max((2, 3)), best_pair(table)
        along = float(agreement([*map(along_diagonal, readings[learned])], backs[learned]).max())
        aligners = {"best": best, "mean": learn(readings[learned], backs[learned], best)}
        rated = {name: agreed(readings[held], backs[held], by) for name, by in aligners.items()}
    else:
        basis = "known" if known else "sharpness"
        scores = _alone(readings[learned], known[learned])
        shift, head = np.unravel_index(scores.argmax(), scores.shape)
        aligners = {"best": Aligner(one_head(scores.shape, int(shift), int(head)))}
        rated = {"best": float(_alone(readings[held], known[held])[shift, head])}
    if known:
        right = [at for at in range(len(known))[held] if known[at] is not None]
        truth = [links for links in known[held] if links is not None]
        own_backs = None if backs is None else [backs[at] for at in right]
        own: Source = "task" if toy else "drawn"
        checked = _checked([readings[at] for at in right], own_backs, truth, aligners, own)
    else:
        checked = _checked_by_hand(loaded, back, pairs[learned], aligners)
    return Study(
        heads=heads_of(loaded),
        basis=basis,
        scores=scores,
        best=aligners["best"],
        mean=aligners.get("mean"),
        diagonal=along,
        n_learned=len(pairs[learned]),
        n_held=len(pairs[held]),
        held=rated,
        checked=checked,
    )


def _counted(results: Iterator[Result], total: int, piece: int) -> Steps[tuple[Result, ...]]:
    """All results, in PIECES pieces of work of a hundred steps each."""
    outcomes = []
    for result in results:
        outcomes.append(result)
        yield 100 * piece + 100 * len(outcomes) // total, 100 * PIECES
    return tuple(outcomes)


def _alone(
    readings: Sequence[Reading], known: Sequence[Known | None]
) -> Float[np.ndarray, "shift head"]:
    """Score a model's heads without a reverse model."""
    if known:
        right = [pair for pair in zip(readings, known, strict=True) if pair[1] is not None]
        return 1 - errors([reading for reading, _ in right], [links for _, links in right if links])
    return np.mean([sharpness(reading) for reading in readings], axis=0)


def sharpness(reading: Reading) -> Float[np.ndarray, "shift head"]:
    """The information that a head's rows carry about the source word, as a share of the maximum for
    this number of rows and words.

    1 if each word attends to a different one; 0 for a single word.
    """
    weights = torch.from_numpy(reading.weights).double()
    rows = weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
    all_open = torch.ones_like(rows, dtype=torch.bool)
    return AttentionRows(rows, all_open, all_open.any(-1)).aligned().weight.numpy()


def _checked_by_hand(
    loaded: LoadedModel,
    back: LoadedModel | None,
    learned: Sequence[Pair],
    aligners: Mapping[str, Aligner],
) -> Checked | None:
    """Evaluate against the hand-drawn links of pairs not learned from; None if there are none."""
    drawn = [gold for gold in drawn_by_hand(loaded.name) if gold.pair not in learned]
    known, readings = [], []
    for gold, reading in zip(drawn, read(loaded, [gold.pair for gold in drawn]), strict=True):
        links = known_by_hand(gold, reading)
        if links is not None:
            known.append(links)
            readings.append(reading)
    backs = None if back is None else [*read_back(back, readings)]
    return _checked(readings, backs, known, aligners, "hand")


def _certain(known: Known) -> Links:
    """The sure links; if there are none, the words that have a possible one."""
    if known.sure.any():
        return known.sure
    return np.asarray(known.possible.any(-1, keepdims=True))


def _checked(
    readings: Sequence[Reading],
    backs: Sequence[Reading] | None,
    known: Sequence[Known],
    aligners: Mapping[str, Aligner],
    source: Source,
) -> Checked | None:
    """Evaluate aligners against known links; None without any."""
    if not known:
        return None
    scores = {}
    others: Sequence[Reading | None] = backs or [None] * len(readings)
    for name, aligner in aligners.items():
        aligned = [align(*pair, aligner) for pair in zip(readings, others, strict=True)]
        scores[name] = score([entry.links for entry in aligned], known)
    shapes = [(len(entry.tgt), len(entry.src)) for entry in readings]
    return Checked(
        source=source,
        n_pairs=len(known),
        n_links=sum(int(_certain(entry).sum()) for entry in known),
        errors=errors(readings, known),
        diagonal=score([diagonal(*shape) for shape in shapes], known),
        scores=scores,
    )
