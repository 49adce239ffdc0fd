"""The picture that a model reads, cut into patches: hide some, or draw another one."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.components.mount import inside, newest_turn, sent, view, whole
from explorer.components.payload import Words, pack
from explorer.figures.theme import show

Sizes = tuple[int, ...]
"""Height and width in pixels, of the picture and of its patches."""


def picture(
    levels: NDArray[np.uint8],
    sizes: Sizes,
    *,
    tokens: Sequence[str],
    order: Sequence[int],
    hidden: Sequence[int],
    key: str,
    on_drawn: Callable[[], None],
    on_hidden: Callable[[], None],
    words: Words,
) -> None:
    """Show a picture, uint8 [height, width, 3], with some patches hidden.

    `tokens` are the labels of its patches, in the model's order, and `order` their cells, counted
    row by row. `on_drawn` is called after a
    stroke (`sent_drawing`), `on_hidden` after a click on a patch (`sent_hidden`).
    """
    pressed = sent(key, "hidden")
    turn = newest_turn(key, whole(pressed.get("turn")) if isinstance(pressed, Mapping) else None)
    about: dict[str, Any] = {"tokens": tokens, "order": order, "hidden": hidden, "words": words}
    data = pack_picture(levels, sizes, turn=turn, **about)
    view("picture")(key=key, data=data, on_drawn_change=on_drawn, on_hidden_change=on_hidden)


def sent_drawing(key: str, sizes: Sizes) -> NDArray[np.uint8] | None:
    """The picture just drawn, uint8 [height, width, 3]; None if there is none of this size."""
    return drawing_of(sent(key, "drawn"), sizes)


def drawing_of(given: Any, sizes: Sizes) -> NDArray[np.uint8] | None:
    """Validate a drawing sent by the browser."""
    height, width = sizes[:2]
    if not isinstance(given, str) or len(given) > 5 * height * width:
        return None
    try:
        data = base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(data) != 3 * height * width:
        return None
    return np.frombuffer(data, np.uint8).reshape(height, width, 3)


def sent_hidden(key: str, n_patches: int) -> list[int] | None:
    """All patches hidden after a click, in the model's order; None if there was none.

    A press sends the whole set: of several in one run, Streamlit keeps only the last.
    """
    return hidden_of(sent(key, "hidden"), n_patches)


def hidden_of(given: Any, n_patches: int) -> list[int] | None:
    """Validate a set of patches sent by the browser, without those that do not exist."""
    patches = given.get("patches") if isinstance(given, Mapping) else None
    if not isinstance(patches, list | tuple):
        return None
    return sorted({at for patch in patches if (at := inside(patch, n_patches)) is not None})


def pack_picture(
    levels: NDArray[np.uint8],
    sizes: Sizes,
    *,
    tokens: Sequence[str],
    order: Sequence[int],
    hidden: Sequence[int],
    turn: int | None = None,
    words: Words,
) -> bytes:
    """Pack the payload of `picture`."""
    height, width, high, wide = sizes[:4]
    head = {
        "rows": height // high,
        "columns": width // wide,
        "high": high,
        "wide": wide,
        "tokens": [show(token) for token in tokens],
        "order": list(order),
        "hidden": list(hidden),
        "turn": turn,
        "words": dict(words),
    }
    return pack(head, levels=levels)
