"""What heads do over sentences that are at hand: an atlas without a file, and one by one."""

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
"""What stands in place of a corpus's name where sentences at hand were measured."""


def lines_of_texts(texts: Sequence[Text]) -> list[Line]:
    """Texts as the lines of a corpus; their numbers stand for offsets."""
    return [Line(at, text.source, text.target, text.credit) for at, text in enumerate(texts)]


def measured(
    loaded: LoadedModel,
    texts: Sequence[Text],
    *,
    ablate: bool = True,
    progress: Callable[[int, int], object] | None = None,
) -> Atlas:
    """An atlas over a few texts. With `ablate` every head is switched off in GROUP of them.

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
    """What every head does in each text by itself: the `strengths` of its measures, the mean
    `weight` on each, NaN where there is none; and the `tokens` of the longer stream, 0 for a text
    that cannot be read."""

    strengths: Float[np.ndarray, "text head measure"]
    weight: Float[np.ndarray, "text head measure"]
    tokens: Int[np.ndarray, " text"]


def one_by_one(loaded: LoadedModel, texts: Sequence[Text], rare: np.ndarray) -> OneByOne:
    """Each text read alone; `rare` says which tokens of the vocabulary are rare in the corpus."""
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
    """What is known of every token, by an atlas's own count of rare ones."""
    return vocabulary(loaded, torch.tensor(rare))
