"""Choices on the Heads page, and the link format of heads."""

import re
from dataclasses import dataclass
from typing import ClassVar, get_args

from explorer.analysis.heads.measures import HeadMeasure
from explorer.components.heads_payload import MAX_PINNED, SCALES, Scale
from explorer.exhibits import PageChoices
from explorer.exhibits.choices import RefusedError, as_digit, choice, model_name, one_of, switch

MEASURES: tuple[str, ...] = (*get_args(HeadMeasure), "needed", "differs")
"""The measures of heads; the last two are the ablation loss, and the difference from the head of
the same index in the compared model."""
NOTHING = "none"
HeadOrAggregate = tuple[int, int] | str
"""A head (layer, head), counted from 0, or the name of an aggregate."""

_HEAD = re.compile(r"([1-9][0-9]{0,2})\.([1-9][0-9]{0,2})", re.ASCII)
_AGGREGATE = re.compile(r"mean-[1-9][0-9]{0,2}|rollout", re.ASCII)


def parse_head(text: str) -> HeadOrAggregate:
    """Read `2.5` (layer 2, head 5), `mean-2` or `rollout`. Raises ValueError."""
    head = _HEAD.fullmatch(text)
    if head:
        return int(head[1]) - 1, int(head[2]) - 1
    if _AGGREGATE.fullmatch(text):
        return text
    raise ValueError(f"no place {text!r}")


def parse_heads(text: str) -> tuple[HeadOrAggregate, ...]:
    """Read `2.5_3.1_rollout`: distinct heads, as many as fit side by side. Raises ValueError."""
    places = tuple(parse_head(part) for part in text.split("_")) if text else ()
    if len(places) > MAX_PINNED or len(set(places)) < len(places):
        raise ValueError(f"{len(places)} places, expected up to {MAX_PINNED} different ones")
    return places


def format_heads(places: tuple[HeadOrAggregate, ...]) -> str:
    """The inverse of `parse_heads`."""
    return "_".join(
        place if isinstance(place, str) else f"{place[0] + 1}.{place[1] + 1}" for place in places
    )


def _instead(text: str) -> str:
    if text != NOTHING and not isinstance(parse_head(text), str):
        raise RefusedError(text)
    return text


def _one_head(text: str) -> tuple[int, int]:
    place = parse_head(text)
    if isinstance(place, str):
        raise RefusedError(text)
    return place


@dataclass(frozen=True)
class HeadsChoices(PageChoices):
    """`instead` is the aggregate or head opened instead of the selected head (NOTHING: none),
    `pins` are the pinned ones, `measure` is the measure of heads, `by_measure` whether it sorts
    them. `scale` and `own_range` define how weights become colours, `words` whether the tokens of a
    word are merged. `with_` is the compared model, `with_head` its open head."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "": ("heads.verdict", "heads.heads", "heads.versus", "heads.matter")
    }
    reads_pictures: ClassVar[bool] = True
    instead: str = choice("", _instead, of_site=True)
    pins: tuple[HeadOrAggregate, ...] = choice((), parse_heads, format_heads, of_site=True)
    measure: str = choice("", one_of(MEASURES))
    by_measure: bool = choice(False, switch, as_digit)
    scale: Scale = choice("linear", one_of(SCALES))
    own_range: bool = choice(False, switch, as_digit)
    words: bool = choice(False, switch, as_digit)
    with_: str = model_name()
    with_head: tuple[int, int] | None = choice(
        None, _one_head, lambda place: format_heads((place,)), of_site=True
    )
