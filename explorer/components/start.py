"""An animation of the whole model processing one sentence, played in the browser."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from explorer.components import payload
from explorer.components.mount import inside
from explorer.figures.theme import Stream, show

Door = Literal["", "head", "waves", "steps", "heads"]
"""What can be open in the picture: one head, the waves of positions, the steps, all heads large."""
DOORS: tuple[Door, ...] = ("head", "waves", "steps", "heads")


@dataclass(frozen=True)
class Heads:
    """An attention sublayer: `cells` [head, query, key] with the mask `allowed`, and the weights of
    each step, `rows` [step, head, key], over the keys that existed then, `there` [step, key]."""

    title: str
    role: str
    cells: payload.Floats
    allowed: payload.Bools
    rows: payload.Floats
    there: payload.Bools
    href: str = ""


@dataclass(frozen=True)
class Thread:
    """A sequence and its blocks: its `tokens`, one per thread, and the values of each.

    `embedded` [thread, value] and `waves` [thread, wave] are None if the model has none.
    """

    stream: Stream
    title: str
    tokens: Sequence[str]
    given: int
    embedded: payload.Floats | None
    waves: payload.Floats | None
    turns: bool
    blocks: Sequence[tuple[str, Sequence[Heads]]]


@dataclass(frozen=True)
class Moment:
    """One step: the thread whose prediction is read, the candidates, and `said`, the text after
    it."""

    thread: int
    tokens: Sequence[str] = ()
    chances: Sequence[float] = ()
    chosen: int | None = None
    said: str = ""


@dataclass(frozen=True)
class HeadDetails:
    """A head with its numbers; `at`: its lane, block and sublayer; `vectors`: its q, k, v and z."""

    at: tuple[int, int, int]
    head: int
    queries: Sequence[str]
    keys: Sequence[str]
    vectors: Mapping[str, payload.Floats]
    scores: payload.Floats
    allowed: payload.Bools
    pattern: payload.Floats
    whole: tuple[int, int]


@dataclass(frozen=True)
class Picked:
    """What the user did since the picture was drawn: opened a part or a head, chose a mask, or
    followed a link."""

    door: Door | None = None
    head: tuple[int, int, int, int] | None = None
    mask: str | None = None
    link: str | None = None


def pick_of(given: Any, lanes: Sequence[Sequence[Sequence[int]]], masks: Sequence[str]) -> Picked:
    """The actions that the picture sent; an empty `Picked` if it is invalid.

    `lanes` are the numbers of heads per lane, block and sublayer.
    """
    if not isinstance(given, Mapping):
        return Picked()
    door, mask, link = given.get("door"), given.get("mask"), given.get("link")
    return Picked(
        door if door in ("", *DOORS) else None,
        _place(given.get("head"), lanes),
        mask if mask in masks else None,
        link if isinstance(link, str) else None,
    )


def _place(
    given: Any, lanes: Sequence[Sequence[Sequence[int]]]
) -> tuple[int, int, int, int] | None:
    if not isinstance(given, list | tuple) or len(given) != 4:
        return None
    lane = inside(given[0], len(lanes))
    block = None if lane is None else inside(given[1], len(lanes[lane]))
    if lane is None or block is None:
        return None
    site = inside(given[2], len(lanes[lane][block]))
    head = None if site is None else inside(given[3], lanes[lane][block][site])
    return None if site is None or head is None else (lane, block, site, head)


def pack_start(
    lanes: Sequence[Thread],
    moments: Sequence[Moment],
    *,
    masks: Sequence[tuple[str, str]],
    mask: str,
    diff: Sequence[tuple[str, str]],
    door: str,
    opened: HeadDetails | None,
    links: Mapping[str, str],
    about: str,
    effect: str,
    said: str,
    prompt: str,
    words: payload.Words,
) -> bytes:
    """Pack the payload. `masks` are (name, words) pairs and `mask` is the active one; `diff`
    compares the generated tokens with those without the change (empty if unchanged); `links` lead
    from a station to its page; `about` says what the model is, `effect` what the mask does (""
    unchanged); `said` is the whole text, which begins with the `prompt` ("" for
    none)."""
    matrices: dict[str, payload.Bytes] = {}
    packed = [_lane(at, lane, matrices) for at, lane in enumerate(lanes)]
    head = {
        "lanes": packed,
        "moments": [
            {
                "thread": moment.thread,
                "tokens": [show(token) for token in moment.tokens],
                "chances": [round(float(chance), 5) for chance in moment.chances],
                "chosen": moment.chosen,
                "said": moment.said,
            }
            for moment in moments
        ],
        "masks": [list(choice) for choice in masks],
        "mask": mask,
        "diff": [[show(token), status] for token, status in diff],
        "door": door,
        "opened": None if opened is None else _opened(opened, matrices),
        "links": dict(links),
        "about": about,
        "effect": effect,
        "said": said,
        "prompt": prompt,
        "words": dict(words),
    }
    return payload.pack(head, **matrices)


def _lane(at: int, lane: Thread, matrices: dict[str, payload.Bytes]) -> dict[str, Any]:
    for name, values in (("embedded", lane.embedded), ("waves", lane.waves)):
        if values is not None:
            matrices[f"{name}{at}"] = signed(values)
    blocks = []
    for b, (title, sites) in enumerate(lane.blocks):
        for s, site in enumerate(sites):
            matrices[f"cells{at}.{b}.{s}"] = payload.encode_weights(site.cells, site.allowed)
            there = site.there[:, None] if len(site.rows) else None
            matrices[f"rows{at}.{b}.{s}"] = payload.encode_weights(site.rows, there)
        blocks.append(
            {
                "title": title,
                "sites": [
                    {
                        "title": site.title,
                        "role": site.role,
                        "heads": site.cells.shape[0],
                        "keys": site.cells.shape[2],
                        "href": site.href,
                    }
                    for site in sites
                ],
            }
        )
    return {
        "stream": lane.stream,
        "title": lane.title,
        **payload.tokens_head(lane.tokens),
        "given": lane.given,
        "turns": lane.turns,
        "embedded": lane.embedded is not None,
        "waves": 0 if lane.waves is None else lane.waves.shape[1],
        "blocks": blocks,
    }


def _opened(opened: HeadDetails, matrices: dict[str, payload.Bytes]) -> dict[str, Any]:
    for name, values in opened.vectors.items():
        matrices[f"open_{name}"] = signed(values)
    return {
        "at": list(opened.at),
        "head": opened.head,
        "queries": [show(token) for token in opened.queries],
        "keys": [show(token) for token in opened.keys],
        "scores": np.round(np.nan_to_num(opened.scores, posinf=0, neginf=0), 3).tolist(),
        "allowed": opened.allowed.astype(int).tolist(),
        "pattern": np.round(opened.pattern, 5).tolist(),
        "whole": list(opened.whole),
    }


def signed(values: payload.Floats) -> payload.Bytes:
    """Signed numbers as bytes: 127 is zero, 0 and 254 are minus and plus the largest magnitude."""
    finite = np.nan_to_num(values.astype(np.float64), posinf=0, neginf=0)
    top = float(np.abs(finite).max(initial=0)) or 1.0
    return (127 + np.rint(127 * finite / top)).astype(np.uint8)
