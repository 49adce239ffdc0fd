"""A training batch: what the decoder reads, what it must predict, and the loss of every label."""

from collections.abc import Sequence

import numpy as np

from explorer.components import payload
from explorer.figures.theme import show


def pack_batch_rows(
    inputs: Sequence[Sequence[str]],
    labels: Sequence[Sequence[str]],
    counts: payload.Bools,
    losses: payload.Floats,
    sources: Sequence[Sequence[str]] = (),
    *,
    padding: str,
    words: payload.Words,
) -> bytes:
    """Pack the payload. `counts` [sentence, pos]: False = label ignored; `losses` in nats.

    `padding` is the label text of padding; these cells are hatched.
    """
    rows = [
        {
            "source": {**payload.tokens_head(sources[at]), "stream": "src"} if sources else None,
            "input": {**payload.tokens_head(inputs[at]), "stream": "tgt"},
            "labels": {**payload.tokens_head(labels[at]), "stream": "tgt"},
            "counts": counts[at].tolist(),
            "losses": np.round(losses[at].astype(float), 3).tolist(),
        }
        for at in range(len(inputs))
    ]
    return payload.pack({"rows": rows, "padding": show(padding), "words": dict(words)})
