"""An animation of decoding: one payload holds every step, and the browser plays it on its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.components import payload
from explorer.components.mount import inside

LEVELS = 65535

Frame = Mapping[str, Any]
"""One step: the `tokens` of its candidates, their `own` probabilities in the model and those `left`
after top-k and top-p, which are `kept`, the index of the one `chosen`, whether it was `forced`, and
`why`, a sentence that explains the choice."""


@dataclass(frozen=True)
class Scene:
    """What the film shows: the step, and the layer and head of the attention (None: mean of
    all)."""

    step: int = 0
    layer: int | None = None
    head: int | None = None


def read_scene(given: Any, n_steps: int, n_layers: int, n_heads: int) -> Scene | None:
    """Validate a scene sent by the browser, dropping indices that no longer exist; None if
    empty."""
    if not isinstance(given, Mapping):
        return None
    return Scene(
        inside(given.get("step"), n_steps) or 0,
        inside(given.get("layer"), n_layers),
        inside(given.get("head"), n_heads),
    )


def read_taken(given: Any, frames: Sequence[Frame]) -> tuple[int, int] | None:
    """Validate a (step, candidate) sent by the browser; None if missing or out of range."""
    if not isinstance(given, list | tuple) or len(given) != 2:
        return None
    step = inside(given[0], len(frames))
    place = None if step is None else inside(given[1], len(frames[step]["tokens"]))
    return None if step is None or place is None else (step, place)


def pack_film(
    frames: Sequence[Frame],
    row: Sequence[str],
    own: payload.Floats,
    cross: payload.Floats | None = None,
    source: Sequence[str] = (),
    *,
    scene: Scene | None = None,
    places: Sequence[int] | None = None,
    turn: int | None = None,
    file: str = "headlight-film",
    words: payload.Words,
) -> bytes:
    """Pack the payload. `row` is the decoder's input after the last step, `own` its self-attention.

    `own` is [layer, head, step, pos]: the attention of each step's newest token to the tokens so
    far, 0 after it; `cross` is [layer, head, step, src] over `source`. `row` has one token more
    than the last step has read: the token of that step. If masked tokens are filled in instead,
    `places` gives the position of each step, `own` the attention of that position, `row` the
    complete text followed by the mask token. `file` is the prefix of the names of saved pictures.
    """
    at = scene or Scene()
    head = {
        "file": file,
        "source": {**payload.tokens_head(source), "stream": "src"} if cross is not None else None,
        "row": {**payload.tokens_head(row), "stream": "tgt"},
        "places": None if places is None else list(places),
        "layers": own.shape[0],
        "heads": own.shape[1],
        "frames": list(frames),
        "scene": {"step": at.step, "layer": at.layer, "head": at.head, "turn": turn},
        "words": dict(words),
    }
    none = np.zeros((0, 2), np.uint8)
    return payload.pack(head, own=fine(own), cross=none if cross is None else fine(cross))


def fine(weights: payload.Floats) -> payload.Bytes:
    """Weights 0 to 1 in two little-endian bytes each, precise enough to average many of them."""
    if weights.size and not (weights.min() >= 0 and weights.max() <= 1.0001):
        low, high = float(weights.min()), float(weights.max())
        raise ValueError(f"weights run from {low:.4g} to {high:.4g}, expected 0 to 1")
    codes = np.rint(np.clip(weights, 0, 1) * LEVELS).astype("<u2")
    return codes.view(np.uint8).reshape(*weights.shape, 2)
