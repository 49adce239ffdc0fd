"""What heads do over given sentences: an atlas without a file, and sentence by sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from explorer.analysis.atlas.ablation import GROUP, cost_sums
from explorer.analysis.atlas.corpus import Line
from explorer.analysis.atlas.measures import Adding, Vocabulary
from explorer.analysis.atlas.reading import batch_of, batches, encode, vocabulary, vocabulary_of
from explorer.analysis.atlas.store import About, Atlas, Text, atlas_of, numbers_of, strengths
from explorer.analysis.atlas.sums import MEASURES
from explorer.library import LoadedModel
from explorer.problems import InputProblem

HERE = "here"
"""The corpus name of an atlas measured on given sentences."""


def lines_of_texts(texts: Sequence[Text]) -> list[Line]:
    """Texts as the lines of a corpus; their indices serve as offsets."""
    return [Line(at, text.source, text.target, text.credit) for at, text in enumerate(texts)]


def measured(
    loaded: LoadedModel,
    texts: Sequence[Text],
    *,
    ablate: bool = True,
    progress: Callable[[int, int], object] | None = None,
) -> Atlas:
    """An atlas over a few texts. With `ablate`, every head is ablated in GROUP of them.

    `progress(done, total)` counts texts. Raises InputProblem `nothing_measured`.
    """
    lines = lines_of_texts(texts)
    adding = Adding(loaded, vocabulary_of(loaded, lines))
    encoded, too_long = encode(loaded, lines)
    if not encoded:
        raise InputProblem("nothing_measured", name=HERE, too_long=too_long, unreadable=0)
    done, total = 0, len(encoded) + (GROUP if ablate else 0)
    for batch in batches(loaded, encoded):
        adding.add(batch)
        done += len(batch.lines)
        if progress is not None:
            progress(done, total)
    if ablate:
        adding.sums.cost[:] = cost_sums(loaded, batch_of(loaded, encoded[:GROUP]))
        if progress is not None:
            progress(total, total)
    adding.skipped(too_long=too_long)
    known = dict(enumerate(texts))
    about = About(loaded.name, "", HERE, "")
    rare = adding.vocabulary.rare.numpy()
    return atlas_of(adding.total(), loaded.sites, about, rare, known)[0]


@dataclass(frozen=True, eq=False)
class OneByOne:
    """What every head does in each single text: the `strengths` of its measures and the mean
    `weight` on each (NaN if undefined), and the `tokens` of the longer sequence (0 for a text that
    cannot be read).
    """

    strengths: Float[np.ndarray, "text head measure"]
    weight: Float[np.ndarray, "text head measure"]
    tokens: Int[np.ndarray, " text"]


def one_by_one(loaded: LoadedModel, texts: Sequence[Text], rare: np.ndarray) -> OneByOne:
    """Read each text alone; `rare` marks the tokens that are rare in the corpus."""
    known = known_of(loaded, rare)
    encoded, _ = encode(loaded, lines_of_texts(texts))
    shape = len(texts), sum(site.n_heads for site in loaded.sites), len(MEASURES)
    found = OneByOne(np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(len(texts), np.int64))
    for each in encoded:
        adding = Adding(loaded, known)
        adding.add(batch_of(loaded, [each]))
        numbers = numbers_of(adding.sums, loaded.sites)
        found.strengths[each.offset] = strengths(numbers["share"], numbers["weight"])
        found.weight[each.offset] = numbers["weight"]
        found.tokens[each.offset] = max(len(each.src), len(each.tgt))
    return found


def known_of(loaded: LoadedModel, rare: np.ndarray) -> Vocabulary:
    """The properties of every token, with the rare ones as counted by an atlas."""
    return vocabulary(loaded, torch.tensor(rare))
