"""Aligned pairs: their links, where the links come from, and what they show about word order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from explorer.analysis.alignment.agreement import Aligner, links_of, matrix
from explorer.analysis.alignment.links import Links, Method, moses, symmetrised
from explorer.analysis.alignment.reading import AT_ONCE, Pair, Reading, read, read_back, translated
from explorer.analysis.alignment.words import words_in
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.inputs import given_tokens
from explorer.runs.passes import Steps


@dataclass(frozen=True, eq=False)
class Alignment:
    """The words of a pair, the weights the links were read from, each direction's links, and the
    `links` that `method` makes of both.

    Without a reverse model `back` is None, and the links are the forward ones whatever the method.
    """

    pair: Pair
    src: tuple[str, ...]
    tgt: tuple[str, ...]
    method: Method
    weights: Float[np.ndarray, "tgt_word src_word"]
    back: Float[np.ndarray, "tgt_word src_word"] | None
    forward: Links
    reverse: Links
    links: Links

    @property
    def moses(self) -> str:
        """The links in Moses format, `0-0 1-2`: source word, target word."""
        return moses(self.links)

    def source(self, tgt: int, src: int) -> str:
        """Where a link comes from: "both", "forward", "reverse", "" for a cell without a link."""
        if not self.links[tgt, src]:
            return ""
        if self.forward[tgt, src] and self.reverse[tgt, src]:
            return "both"
        return "forward" if self.forward[tgt, src] else "reverse"


def align(reading: Reading, back: Reading | None, aligner: Aligner, method: Method) -> Alignment:
    """Align one pair; `back` is the same pair as read by the reverse model (`read_back`)."""
    forward, reverse = links_of(reading, back, aligner)
    has_back = back is not None and aligner.reverse is not None
    used: Method = method if has_back else "forward"
    return Alignment(
        pair=reading.pair,
        src=reading.src.labels,
        tgt=reading.tgt.labels,
        method=used,
        weights=matrix(reading, aligner.forward),
        back=matrix(back, aligner.reverse) if back and aligner.reverse is not None else None,
        forward=forward,
        reverse=reverse,
        links=symmetrised(forward, reverse, used),
    )


def align_pairs(
    loaded: LoadedModel,
    back: LoadedModel | None,
    pairs: Sequence[Pair],
    aligner: Aligner,
    method: Method,
) -> tuple[Alignment, ...]:
    """Align every pair, in order; a pair without a translation has no links. Raises
    InputProblem."""
    readings = tuple(read(loaded, [pair for pair in pairs if pair[1]]))
    backs: Iterable[Reading | None] = [None] * len(readings)
    if back is not None:
        backs = read_back(back, readings)
    aligned = (align(*both, aligner, method) for both in zip(readings, backs, strict=True))
    return tuple(
        next(aligned)
        if pair[1]
        else _without_links(
            pair, method, words_in(loaded, given_tokens(loaded, pair[0]), "src").labels
        )
        for pair in pairs
    )


def align_all(
    loaded: LoadedModel,
    back: LoadedModel | None,
    pairs: Sequence[Pair],
    aligner: Aligner,
    method: Method,
) -> Steps[tuple[tuple[Alignment, ...], tuple[tuple[int, InputProblem], ...]]]:
    """Align every pair of a file; translate pairs without a translation first.

    Also returns, for each pair that cannot be read (it then has no links), its index and the
    reason. The steps count pairs.
    """
    aligned: list[Alignment] = []
    refused: list[tuple[int, InputProblem]] = []
    for start in range(0, len(pairs), AT_ONCE):
        batch = pairs[start : start + AT_ONCE]
        try:
            whole = completed(loaded, batch)
            aligned += align_pairs(loaded, back, whole, aligner, method)
        except InputProblem:
            for place, pair in enumerate(batch, start):  # retry one by one
                try:
                    whole = completed(loaded, [pair])
                    aligned += align_pairs(loaded, back, whole, aligner, method)
                except InputProblem as problem:
                    refused.append((place, problem))
                    aligned.append(_without_links(pair, method))
        yield len(aligned), len(pairs)
    return tuple(aligned), tuple(refused)


def _without_links(pair: Pair, method: Method, src: tuple[str, ...] = ()) -> Alignment:
    none = np.zeros((0, len(src)), bool)
    return Alignment(pair, src, (), method, none.astype(float), None, none, none, none)


def completed(loaded: LoadedModel, pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The same pairs, with an empty second text replaced by the model's own greedy translation.

    The second text stays "" if the model's translation has no words. Raises InputProblem.
    """
    alone = list(dict.fromkeys(source for source, target in pairs if not target))
    written = dict(translated(loaded, alone))
    return tuple((source, target or written.get(source, "")) for source, target in pairs)
