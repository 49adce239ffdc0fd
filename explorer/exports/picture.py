"""Heatmaps as SVG without a browser: one per attention site, and the difference of two patterns.

The SVG is written as text: it loads nothing and has no scripts, and text from users is escaped.
Cells of one colour form one path, with one rectangle per run of cells, so 8 heads of 128 tokens
stay under a megabyte.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from explorer.figures.frame import Bools, Floats, Words, check_shape
from explorer.figures.matrix import Matrix
from explorer.figures.theme import FONT, LIGHT, Palette, Stream, bare, clipped, is_special, show

LEVELS = 65
"""Shades of a scale, odd so that one is the middle; weights that differ by less than 1.6 % may look
the same."""
LEAST = 0.01
"""The smallest limit of a difference scale, so that noise is not stretched over the scale."""
_GAP, _TITLE, _LEGEND = 32.0, 30.0, 34.0


@dataclass(frozen=True)
class Scale:
    """A colour scale: its stops, the position (0 to 1) of the background colour, and the label in
    the legend."""

    stops: tuple[str, ...]
    ground: float
    said: str


def site_svg(
    patterns: Floats,
    mask: Bools,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    title: str,
    query_stream: Stream,
    key_stream: Stream,
    names: Sequence[str] | None = None,
    words: Words,
) -> str:
    """All heads of one site as an SVG: queries down, keys across, one scale from 0 to 100 %.

    `patterns` and `mask` are [head, query, key]; a cell whose mask is False is hatched, whatever
    its weight. `names` are the titles of the heads, by default their numbers. Raises ValueError,
    with the sizes, if they disagree.
    """
    if names is None:
        names = [f"{words['head']} {head + 1}" for head in range(len(patterns))]
    scale = Scale(LIGHT.attention, 0.0, f"0–100 % {words['weight']}")
    tokens, streams = (query_tokens, key_tokens), (query_stream, key_stream)
    titles = _titles(streams, words)
    return _sheet(patterns, mask, tokens, titles, streams, title, names, scale, words["blocked"])


def _titles(streams: tuple[Stream, Stream], words: Words) -> tuple[str, str]:
    return (
        f"{words['query']} ({words[streams[0]]})",
        f"{words['key']} ({words[streams[1]]})",
    )


def matrix_svg(matrix: Matrix, *, title: str, blocked: str) -> str:
    """A heatmap as an SVG, in light colours; `blocked` is the label of hatched cells."""
    scale = matrix.scale
    shares = (matrix.values - scale.low) / (scale.high - scale.low)
    ticks = " … ".join(dict.fromkeys(label for _, label in (scale.ticks[0], scale.ticks[-1])))
    drawn = Scale(
        getattr(LIGHT, scale.colours),
        0.5 if scale.colours == "diverging" else 0.0,
        f"{ticks} {scale.title}",
    )
    return _sheet(
        np.where(matrix.blocked, 0, shares)[None],
        ~matrix.blocked[None],
        (matrix.query_tokens, matrix.key_tokens),
        (matrix.query_title, matrix.key_title),
        (matrix.query_stream or "tgt", matrix.key_stream or "tgt"),
        title,
        [""],
        drawn,
        blocked,
    )


def difference_svg(
    before: Floats,
    after: Floats,
    mask: Bools,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    title: str,
    query_stream: Stream,
    key_stream: Stream,
    name: str,
    words: Words,
) -> str:
    """after - before of one pattern [query, key] as an SVG, with a diverging scale around 0.

    The scale ends at the largest change, but at least at LEAST. Raises ValueError, with the sizes,
    if they disagree.
    """
    check_shape("after", after, before.shape)
    change = np.asarray(after, np.float64) - np.asarray(before, np.float64)
    limit = max(LEAST, float(np.abs(change).max(initial=0.0)))
    ends = f"{100 * limit:.1f}"
    scale = Scale(LIGHT.diverging, 0.5, f"−{ends} … +{ends} {words['points']}")
    tokens, streams = (query_tokens, key_tokens), (query_stream, key_stream)
    shares, titles = (0.5 + change / limit / 2)[None], _titles(streams, words)
    return _sheet(
        shares, mask[None], tokens, titles, streams, title, [name], scale, words["blocked"]
    )


def _sheet(
    shares: Floats,
    mask: Bools,
    tokens: tuple[Sequence[str], Sequence[str]],
    titles: tuple[str, str],
    streams: tuple[Stream, Stream],
    title: str,
    names: Sequence[str],
    scale: Scale,
    blocked: str,
) -> str:
    """Draw matrices [head, query, key] of positions (0 to 1) on a scale, each with its name."""
    query_tokens, key_tokens = tokens
    n_heads, n_query, n_key = len(shares), len(query_tokens), len(key_tokens)
    check_shape("patterns", shares, (n_heads, n_query, n_key))
    check_shape("mask", mask, (n_heads, n_query, n_key))
    colours = LIGHT  # in the dark theme too
    if len(names) != n_heads:
        raise ValueError(f"names has {len(names)} entries, but there are {n_heads} heads")
    cell = max(4.0, min(18.0, 420 / max(n_query, n_key, 1)))
    font = max(3.0, min(12.0, cell * 0.8))
    left = 30 + font * longest(query_tokens)
    top = 48 + font * longest(key_tokens) * 0.75
    width, height = left + n_key * cell, top + n_query * cell
    columns = max(1, min(n_heads, 4, int(1600 // (width + _GAP))))
    rows = -(-n_heads // columns)
    total = (
        max(columns * (width + _GAP), 360.0) + _GAP,
        _TITLE + rows * (height + _GAP) + _LEGEND,
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{total[0]:g}" '
        f'height="{total[1]:g}" viewBox="0 0 {total[0]:g} {total[1]:g}" '
        f'font-family="{escape(FONT)}" font-size="{font:g}" fill="{colours.ink}">',
        f"<title>{escape(title)}</title>",
        '<defs><pattern id="h" width="0.5" height="0.5" patternUnits="userSpaceOnUse">'
        f'<rect width="0.5" height="0.5" fill="{colours.blocked}"/>'
        f'<path d="M0 0.5L0.5 0" stroke="{colours.hatch}" stroke-width="0.08"/></pattern></defs>',
        f'<rect width="100%" height="100%" fill="{colours.paper}"/>',
        f'<text x="{_GAP:g}" y="22" font-size="15" font-weight="600">{escape(title)}</text>',
    ]
    for head in range(n_heads):
        x = _GAP + (head % columns) * (width + _GAP)
        y = _TITLE + (head // columns) * (height + _GAP)
        parts.append(f'<g transform="translate({x:g} {y:g})">')
        parts.append(
            f'<text x="{left:g}" y="14" font-size="12" font-weight="600">'
            f"{escape(names[head])}</text>"
        )
        parts.extend(axes(titles, streams, colours, left, top))
        parts.extend(labels(query_tokens, key_tokens, colours, left, top, cell, font))
        parts.append(f'<g transform="translate({left:g} {top:g}) scale({cell:g})">')
        parts.extend(_cells(shares[head], mask[head], scale, colours))
        parts.append("</g></g>")
    parts.extend(_legend(scale, blocked, _TITLE + rows * (height + _GAP)))
    return "\n".join([*parts, "</svg>\n"])


def longest(tokens: Sequence[str], *, whole: bool = False) -> float:
    """Width of the widest label in units of the font size; a Chinese character counts as 1.

    Long token labels are truncated; `whole` measures the full text, for titles.
    """
    shown = tokens if whole else [_shown(token) for token in tokens]
    widths = (sum(0.6 if c < "\u1100" else 1.0 for c in bare(each)) for each in shown)
    return max(widths, default=0.0)


def _shown(token: str) -> str:
    return clipped(show(token), 16)


def axes(
    titles: tuple[str, str],
    streams: tuple[Stream, Stream],
    colours: Palette,
    left: float,
    top: float,
) -> list[str]:
    """The titles of the two axes, in the colours of their sequences."""
    return [
        f'<text transform="translate(10 {top:g}) rotate(-90)" text-anchor="end" font-size="11" '
        f'fill="{colours.stream(streams[0])}">{escape(titles[0])}</text>',
        f'<text x="{left:g}" y="30" font-size="11" '
        f'fill="{colours.stream(streams[1])}">{escape(titles[1])}</text>',
    ]


def labels(
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    colours: Palette,
    left: float,
    top: float,
    cell: float,
    font: float,
) -> list[str]:
    """The tokens left of the rows and, rotated, above the columns."""
    drawn = []
    for index, token in enumerate(query_tokens):
        y = top + (index + 0.5) * cell + font * 0.35
        drawn.append(
            f'<text x="{left - 4:g}" y="{y:g}" text-anchor="end"{_ink(token, colours)}>'
            f"{escape(_shown(token))}</text>"
        )
    for index, token in enumerate(key_tokens):
        x = left + (index + 0.5) * cell + font * 0.3
        drawn.append(
            f'<text transform="translate({x:g} {top - 4:g}) rotate(-50)"{_ink(token, colours)}>'
            f"{escape(_shown(token))}</text>"
        )
    return drawn


def _ink(token: str, colours: Palette) -> str:
    return f' fill="{colours.muted}"' if is_special(token) else ""


def _cells(shares: Floats, mask: Bools, scale: Scale, colours: Palette) -> list[str]:
    """A background rectangle and one path per shade, in units of cells."""
    n_query, n_key = shares.shape
    level = np.rint(np.clip(shares, 0, 1) * (LEVELS - 1)).astype(int)
    level[~mask] = -1
    runs: dict[int, list[str]] = {}
    for query, row in enumerate(level):
        starts = np.flatnonzero(np.diff(row, prepend=LEVELS))
        for start, end in zip(starts, [*starts[1:], n_key], strict=True):
            n = end - start
            runs.setdefault(int(row[start]), []).append(f"M{start} {query}h{n}v1h-{n}z")
    runs.pop(round(scale.ground * (LEVELS - 1)), None)
    shades = {-1: "url(#h)"} | {
        shade: _shade(shade / (LEVELS - 1), scale) for shade in runs if shade >= 0
    }
    return [
        f'<rect width="{n_key}" height="{n_query}" fill="{_shade(scale.ground, scale)}" '
        f'stroke="{colours.line}" stroke-width="0.06"/>',
        *(f'<path fill="{shades[shade]}" d="{"".join(runs[shade])}"/>' for shade in sorted(runs)),
    ]


def _shade(share: float, scale: Scale) -> str:
    """The colour at a position of a scale, interpolated between its stops."""
    stops = [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in scale.stops]
    at = np.linspace(0, 1, len(stops))
    channels = [round(float(np.interp(share, at, [stop[i] for stop in stops]))) for i in range(3)]
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def _legend(scale: Scale, blocked: str, y: float) -> list[str]:
    parts = [f'<g transform="translate({_GAP:g} {y:g})" font-size="11">']
    for step in range(20):
        parts.append(
            f'<rect x="{step * 5}" width="5" height="10" fill="{_shade(step / 19, scale)}"/>'
        )
    parts.append(f'<text x="106" y="9">{escape(scale.said)}</text>')
    at = 122 + 6.5 * len(scale.said)
    parts.append(f'<g transform="translate({at:g} 0) scale(10)">')
    parts.append('<rect width="2" height="1" fill="url(#h)"/></g>')
    parts.append(f'<text x="{at + 26:g}" y="9">{escape(blocked)}</text></g>')
    return parts
