"""Aligned pairs: their links, and where the links come from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from explorer.analysis.alignment.agreement import Aligner, links_of, matrix
from explorer.analysis.alignment.links import Links, moses, symmetrised
from explorer.analysis.alignment.reading import Pair, Reading, read, read_back, translated
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.inputs import given_tokens
from explorer.runs.passes import Steps


@dataclass(frozen=True, eq=False)
class Alignment:
    """The words of a pair, the weights the links were read from, each direction's links, and the
    `links` made of both.

    Without a reverse model `back` is None, and the links are the forward ones.
    """

    pair: Pair
    src: tuple[str, ...]
    tgt: tuple[str, ...]
    weights: Float[np.ndarray, "tgt_word src_word"]
    back: Float[np.ndarray, "tgt_word src_word"] | None
    forward: Links
    reverse: Links
    links: Links

    @property
    def moses(self) -> str:
        """The links in Moses format, `0-0 1-2`: source word, target word."""
        return moses(self.links)

    @property
    def found_by(self) -> NDArray[np.object_]:
        """The direction that found each link, [tgt_word, src_word]: "both", "forward", "reverse";
        "" for a cell without a link."""
        names = np.full(self.links.shape, "", dtype=object)
        names[self.reverse] = "reverse"
        names[self.forward] = "forward"
        names[self.forward & self.reverse] = "both"
        names[~self.links] = ""
        return names


def align(reading: Reading, back: Reading | None, aligner: Aligner) -> Alignment:
    """Align one pair; `back` is the same pair as read by the reverse model (`read_back`)."""
    forward, reverse = links_of(reading, back, aligner)
    backward = None
    if back is not None and aligner.reverse is not None:
        backward = matrix(back, aligner.reverse)
    return Alignment(
        pair=reading.pair,
        src=reading.src.labels,
        tgt=reading.tgt.labels,
        weights=matrix(reading, aligner.forward),
        back=backward,
        forward=forward,
        reverse=reverse,
        links=forward if backward is None else symmetrised(forward, reverse),
    )


def align_all(
    loaded: LoadedModel, back: LoadedModel | None, pairs: Sequence[Pair], aligner: Aligner
) -> Steps[tuple[tuple[Alignment | None, ...], dict[int, InputProblem]]]:
    """Align every pair of a file; a pair without a translation is translated first.

    Also returns the reason for each pair that cannot be read, by its index. The alignment is None
    for such a pair, and for one whose translation has no words. The steps count pairs.
    """
    aligned: list[Alignment | None] = []
    refused: dict[int, InputProblem] = {}
    for place, pair in enumerate(pairs):
        try:
            aligned.append(_aligned(loaded, back, pair, aligner))
        except InputProblem as problem:
            refused[place] = problem
            aligned.append(None)
        yield place + 1, len(pairs)
    return tuple(aligned), refused


def _aligned(
    loaded: LoadedModel, back: LoadedModel | None, pair: Pair, aligner: Aligner
) -> Alignment | None:
    if not pair[1]:
        given_tokens(loaded, pair[0])  # `translated` leaves out what cannot be read
        pair = next(translated(loaded, [pair[0]]), pair)
    if not pair[1]:
        return None
    reading = next(read(loaded, [pair]))
    return align(reading, next(read_back(back, [reading])) if back else None, aligner)
