"""Where one can be: parts of pages, and what stands open on the Heads page, as links write it."""

import re
from typing import get_args

from explorer.analysis.blocks.activations import What
from explorer.components import MAX_PINNED

PARTS: dict[str, tuple[str, ...]] = {
    "positions": ("order", "head", "table", "learned", "rotary", "length"),
    "decoding": ("pass", "branches", "cache"),
    "blocks": ("norms", "residual", "activations", "hidden"),
}
"""The parts of the pages that have some; the first is what a page opens with."""

PICTURES: dict[str, tuple[str, ...]] = {
    "positions": ("weights", "scores", "difference"),
    "masks": ("sides", "scores", "difference"),
    "branches": ("sides", "difference"),
    "blocks": get_args(What),
}
"""What a picture can show where there is a choice; the first is what it opens with."""

Place = tuple[int, int] | str
"""A head (layer, head), counted from 0, or the name of an extra."""

_HEAD = re.compile(r"([1-9][0-9]{0,2})\.([1-9][0-9]{0,2})", re.ASCII)
_EXTRA = re.compile(r"mean-[1-9][0-9]{0,2}|rollout|flow", re.ASCII)


def parse_place(text: str) -> Place:
    """Read `2.5` (layer 2, head 5), `mean-2`, `rollout` or `flow`. Raises ValueError."""
    head = _HEAD.fullmatch(text)
    if head:
        return int(head[1]) - 1, int(head[2]) - 1
    if _EXTRA.fullmatch(text):
        return text
    raise ValueError(f"no place {text!r}")


def parse_places(text: str) -> tuple[Place, ...]:
    """Read `2.5_3.1_rollout`: different places, as many as fit side by side. Raises ValueError."""
    places = tuple(parse_place(part) for part in text.split("_")) if text else ()
    if len(places) > MAX_PINNED or len(set(places)) < len(places):
        raise ValueError(f"{len(places)} places, expected up to {MAX_PINNED} different ones")
    return places


def format_places(places: tuple[Place, ...]) -> str:
    """What `parse_places` reads."""
    return "_".join(
        place if isinstance(place, str) else f"{place[0] + 1}.{place[1] + 1}" for place in places
    )
