"""One word in two sentences: the same embedding, and how each context changes it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from explorer.runs.trace import Trace
from models.rows import Stream

MOST = 6


@dataclass(frozen=True, eq=False)
class SharedWord:
    """A token of both sentences; `places` are its first positions in each, from 0.

    `cosines` [stage] compare its two vectors: in the embedding, where they are equal, then after
    each layer.
    """

    token: str
    places: tuple[int, int]
    cosines: Float[np.ndarray, " stage"]


def shared_words(one: Trace, other: Trace, stream: Stream) -> tuple[SharedWord, ...]:
    """The first tokens, at most `MOST`, that two sentences of one model share in a stream.

    Special tokens, padding and punctuation do not count; the result may be empty.
    Raises ValueError for Traces of two models.
    """
    if (one.model, one.config) != (other.model, other.config):
        raise ValueError(f"the traces come from two models, {one.model!r} and {other.model!r}")
    sites = [site for site in one.sites if site.kind == "self" and site.query_stream == stream]
    stack = one.stack(stream)
    hooks = [stack.hook("embed"), *(site.block_hook("resid_post") for site in sites)]
    ids, others = (each.src_tokens if stream == "src" else each.tgt_tokens for each in (one, other))
    names = one.src_str_tokens if stream == "src" else one.tgt_str_tokens
    found = []
    for token in dict.fromkeys(ids):
        places = ids.index(token), others.index(token) if token in others else -1
        is_word = token not in one.marks.of(stream) and any(map(str.isalnum, names[places[0]]))
        if token in others and is_word:
            cosines = [
                _cosine(one.activations[hook][places[0]], other.activations[hook][places[1]])
                for hook in hooks
            ]
            found.append(SharedWord(names[places[0]], places, np.array(cosines)))
    return tuple(found[:MOST])


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    wide, other = a.astype(np.float64), b.astype(np.float64)
    return float(wide @ other / (np.linalg.norm(wide) * np.linalg.norm(other)))
