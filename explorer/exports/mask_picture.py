"""Mask matrices of one layer as an SVG without a browser; each rule has its own hatching."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from explorer.exports.picture import axes, labels, longest
from explorer.figures.frame import Words, check_shape
from explorer.figures.theme import FONT, LIGHT, Stream

HATCHES = (
    "M-1 1L1 -1M0 6L6 0M5 7L7 5",
    "M-1 5L1 7M0 0L6 6M5 -1L7 1",
    "M0 3L6 3",
    "M-1 1L1 -1M0 6L6 0M5 7L7 5M-1 5L1 7M0 0L6 6M5 -1L7 1",
    "M3 0L3 6",
    "M2 2h1.5v1.5h-1.5z",
)
"""One tile of 6 x 6 pixels for each rule, as `components/canvas.js` draws them."""
_CELL, _FONT, _GAP, _TITLE, _LINE = 16.0, 11.0, 32.0, 30.0, 22.0


@dataclass(frozen=True)
class MaskPicture:
    """One matrix: `blocked_by` [query, key] is 0 if the query may attend to the key, else the
    1-based number of the rule that blocks it."""

    title: str
    blocked_by: NDArray[np.integer]
    query_tokens: Sequence[str]
    key_tokens: Sequence[str]
    query_title: str
    key_title: str
    query_stream: Stream
    key_stream: Stream


def masks_svg(
    matrices: Sequence[MaskPicture], *, title: str, rules: Sequence[str], words: Words
) -> str:
    """The matrices side by side, with a legend of the rules that occur in them.

    `rules[n - 1]` is the name of rule n; `words["open"]` is the name of an open cell. The colours
    are light in the dark theme too. Raises ValueError, with the sizes, if sizes disagree or a rule
    has no name or hatching.
    """
    most = min(len(rules), len(HATCHES))
    for each in matrices:
        check_shape("blocked_by", each.blocked_by, (len(each.query_tokens), len(each.key_tokens)))
        if each.blocked_by.size and not 0 <= each.blocked_by.min() <= each.blocked_by.max() <= most:
            found = (int(each.blocked_by.min()), int(each.blocked_by.max()))
            raise ValueError(f"blocked_by runs from {found[0]} to {found[1]}, of {most} rules")
    used = sorted({int(rule) for each in matrices for rule in np.unique(each.blocked_by)} | {0})
    parts, x, bottom = [], _GAP, 0.0
    for each in matrices:
        n_query, n_key = each.blocked_by.shape
        left = 30 + _FONT * longest(each.query_tokens)
        above = 48 + _FONT * longest(each.key_tokens) * 0.75
        wide, tall = left + n_key * _CELL, above + n_query * _CELL
        parts.append(f'<g transform="translate({x:g} {_TITLE:g})">')
        parts.append(
            f'<text x="0" y="14" font-size="12" font-weight="600">{escape(each.title)}</text>'
        )
        titles, streams = (each.query_title, each.key_title), (each.query_stream, each.key_stream)
        parts += axes(titles, streams, LIGHT, left, above)
        parts += labels(each.query_tokens, each.key_tokens, LIGHT, left, above, _CELL, _FONT)
        parts.append(f'<g transform="translate({left:g} {above:g})" stroke="{LIGHT.line}">')
        parts += [
            f'<rect x="{key * _CELL:g}" y="{query * _CELL:g}" width="{_CELL:g}" '
            f'height="{_CELL:g}" fill="{_fill(int(rule))}"/>'
            for (query, key), rule in np.ndenumerate(each.blocked_by)
        ]
        parts.append("</g></g>")
        title_width = _FONT * 1.1 * longest([each.title], whole=True)
        x += max(wide, title_width) + _FONT * longest(each.key_tokens[-1:]) * 0.65 + _GAP
        bottom = max(bottom, _TITLE + tall)
    names = [words["open"], *rules]
    for line, rule in enumerate(used):
        y = bottom + _GAP / 2 + line * _LINE
        parts.append(
            f'<rect x="{_GAP:g}" y="{y:g}" width="16" height="16" fill="{_fill(rule)}" '
            f'stroke="{LIGHT.line}"/>'
            f'<text x="{_GAP + 24:g}" y="{y + 12:g}">{escape(names[rule])}</text>'
        )
    wide, tall = max(x, 420.0), bottom + _GAP + len(used) * _LINE
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{wide:g}" '
            f'height="{tall:g}" viewBox="0 0 {wide:g} {tall:g}" font-family="{escape(FONT)}" '
            f'font-size="{_FONT:g}" fill="{LIGHT.ink}">',
            f"<title>{escape(title)}</title>",
            f"<defs>{''.join(_tile(rule) for rule in used if rule)}</defs>",
            f'<rect width="100%" height="100%" fill="{LIGHT.paper}"/>',
            f'<text x="{_GAP:g}" y="20" font-size="14" font-weight="600">{escape(title)}</text>',
            *parts,
            "</svg>\n",
        ]
    )


def _fill(rule: int) -> str:
    return f"url(#rule-{rule})" if rule else LIGHT.paper


def _tile(rule: int) -> str:
    return (
        f'<pattern id="rule-{rule}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" fill="{LIGHT.rules[rule - 1]}" stroke="none"/>'
        f'<path d="{HATCHES[rule - 1]}" fill="none" stroke="{LIGHT.rule_marks[rule - 1]}" '
        'stroke-width="0.9"/></pattern>'
    )
