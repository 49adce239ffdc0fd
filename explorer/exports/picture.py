"""Heatmaps and mask matrices as SVG without a browser.

The SVG is written as text: it loads nothing and has no scripts, and text from users is escaped.
Cells of one colour form one path, with one rectangle per run of cells, so 8 heads of 128 tokens
stay under a megabyte.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from html import escape

import numpy as np
from numpy.typing import NDArray

from explorer.figures.frame import Bools, Floats, Words, check_shape
from explorer.figures.matrix import Matrix
from explorer.figures.theme import FONT, LIGHT, Stream, bare, clipped, is_special, show

LEVELS = 65
"""Shades of a scale, odd so that one is the middle; weights that differ by less than 1.6 % may look
the same."""
LEAST = 0.01
"""The smallest limit of a difference scale, so that noise is not stretched over the scale."""
HATCHES = (
    "M-1 1L1 -1M0 6L6 0M5 7L7 5",
    "M-1 5L1 7M0 0L6 6M5 -1L7 1",
    "M0 3L6 3",
    "M-1 1L1 -1M0 6L6 0M5 7L7 5M-1 5L1 7M0 0L6 6M5 -1L7 1",
    "M3 0L3 6",
    "M2 2h1.5v1.5h-1.5z",
)
"""One tile of 6 x 6 pixels for each rule, as `components/canvas.js` draws them."""
_GAP, _TITLE, _LEGEND = 32.0, 30.0, 34.0
_CELL, _FONT, _LINE = 16.0, 11.0, 22.0


@dataclass(frozen=True)
class Axes:
    """Tokens, title and sequence of the rows (queries) and of the columns (keys) of a matrix."""

    query_tokens: Sequence[str]
    key_tokens: Sequence[str]
    query_title: str
    key_title: str
    query_stream: Stream = "tgt"
    key_stream: Stream = "tgt"

    @classmethod
    def of(
        cls,
        queries: Sequence[str],
        keys: Sequence[str],
        streams: tuple[Stream, Stream],
        words: Words,
    ) -> "Axes":
        """The axes named by `words` of `export`: "query (source)"."""
        query = f"{words['query']} ({words[streams[0]]})"
        return cls(queries, keys, query, f"{words['key']} ({words[streams[1]]})", *streams)


@dataclass(frozen=True)
class LegendScale:
    """A colour scale: its stops, the position (0 to 1) of the background colour, and the label in
    the legend."""

    stops: tuple[str, ...]
    ground: float
    said: str


def site_svg(
    patterns: Floats,
    mask: Bools,
    axes: Axes,
    *,
    title: str,
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
    scale = LegendScale(LIGHT.attention, 0.0, f"0–100 % {words['weight']}")
    return _sheet(patterns, mask, axes, title, names, scale, words["blocked"])


def matrix_svg(matrix: Matrix, *, title: str, blocked: str) -> str:
    """A heatmap as an SVG, in light colours; `blocked` is the label of hatched cells."""
    scale = matrix.scale
    shares = (matrix.values - scale.low) / (scale.high - scale.low)
    ticks = " … ".join(dict.fromkeys(label for _, label in (scale.ticks[0], scale.ticks[-1])))
    ground = 0.5 if scale.colours == "diverging" else 0.0
    drawn = LegendScale(getattr(LIGHT, scale.colours), ground, f"{ticks} {scale.title}")
    given = {each.name: getattr(matrix, each.name) for each in fields(Axes)}
    axes = Axes(**{name: "tgt" if value is None else value for name, value in given.items()})
    shares = np.where(matrix.blocked, 0, shares)[None]
    return _sheet(shares, ~matrix.blocked[None], axes, title, [""], drawn, blocked)


def difference_svg(
    before: Floats, after: Floats, mask: Bools, axes: Axes, *, title: str, name: str, words: Words
) -> str:
    """after - before of one pattern [query, key] as an SVG, with a diverging scale around 0.

    The scale ends at the largest change, but at least at LEAST. Raises ValueError, with the sizes,
    if they disagree.
    """
    check_shape("after", after, before.shape)
    change = np.asarray(after, np.float64) - np.asarray(before, np.float64)
    limit = max(LEAST, float(np.abs(change).max(initial=0.0)))
    ends = f"{100 * limit:.1f}"
    scale = LegendScale(LIGHT.diverging, 0.5, f"−{ends} … +{ends} {words['points']}")
    shares = (0.5 + change / limit / 2)[None]
    return _sheet(shares, mask[None], axes, title, [name], scale, words["blocked"])


def _sheet(
    shares: Floats,
    mask: Bools,
    axes: Axes,
    title: str,
    names: Sequence[str],
    scale: LegendScale,
    blocked: str,
) -> str:
    """Draw matrices [head, query, key] of positions (0 to 1) on a scale, each with its name."""
    n_heads, n_query, n_key = len(shares), len(axes.query_tokens), len(axes.key_tokens)
    check_shape("patterns", shares, (n_heads, n_query, n_key))
    check_shape("mask", mask, (n_heads, n_query, n_key))
    if len(names) != n_heads:
        raise ValueError(f"names has {len(names)} entries, but there are {n_heads} heads")
    cell = max(4.0, min(18.0, 420 / max(n_query, n_key, 1)))
    font = max(3.0, min(12.0, cell * 0.8))
    left, top = _corner(axes, font)
    width, height = left + n_key * cell, top + n_query * cell
    columns = max(1, min(n_heads, 4, int(1600 // (width + _GAP))))
    bottom = _TITLE + -(-n_heads // columns) * (height + _GAP)
    parts = [
        '<defs><pattern id="h" width="0.5" height="0.5" patternUnits="userSpaceOnUse">'
        f'<rect width="0.5" height="0.5" fill="{LIGHT.blocked}"/>'
        f'<path d="M0 0.5L0.5 0" stroke="{LIGHT.hatch}" stroke-width="0.08"/></pattern></defs>',
        *_heading(title, 22, 15),
    ]
    for head, name in enumerate(names):
        x = _GAP + (head % columns) * (width + _GAP)
        y = _TITLE + (head // columns) * (height + _GAP)
        parts += [
            *_framed((x, y), name, left, axes, (left, top), cell, font),
            f'<g transform="translate({left:g} {top:g}) scale({cell:g})">',
            *_cells(shares[head], mask[head], scale),
            "</g></g>",
        ]
    parts += _legend(scale, blocked, bottom)
    wide = max(columns * (width + _GAP), 360.0) + _GAP
    return _svg((wide, bottom + _LEGEND), font, title, parts)


def masks_svg(
    matrices: Sequence[tuple[str, NDArray[np.integer], Axes]],
    *,
    title: str,
    rules: Sequence[str],
    visible: str,
) -> str:
    """Mask matrices of one layer side by side, with a legend of the rules that occur in them.

    Each has a title and `blocked_by` [query, key]: 0 if the query may attend to the key, else the
    1-based number of the rule that blocks it. `rules[n - 1]` is the name of rule n; `visible`
    is the name of an open cell. The colours are light in the dark theme too. Raises ValueError,
    with the sizes, if sizes disagree or a rule has no name or hatching.
    """
    most = min(len(rules), len(HATCHES))
    parts: list[str] = []
    x, bottom, used = _GAP, 0.0, {0}
    for name, blocked_by, axes in matrices:
        n_query, n_key = len(axes.query_tokens), len(axes.key_tokens)
        check_shape("blocked_by", blocked_by, (n_query, n_key))
        found = np.unique(blocked_by).tolist()
        if found and not 0 <= found[0] <= found[-1] <= most:
            raise ValueError(f"blocked_by runs from {found[0]} to {found[-1]}, of {most} rules")
        used |= set(found)
        left, top = _corner(axes, _FONT)
        parts += _framed((x, _TITLE), name, 0, axes, (left, top), _CELL, _FONT)
        parts.append(f'<g transform="translate({left:g} {top:g})" stroke="{LIGHT.line}">')
        parts += [
            f'<rect x="{key * _CELL:g}" y="{query * _CELL:g}" width="{_CELL:g}" '
            f'height="{_CELL:g}" fill="{_fill(int(rule))}"/>'
            for (query, key), rule in np.ndenumerate(blocked_by)
        ]
        parts.append("</g></g>")
        wide = max(left + n_key * _CELL, _FONT * 1.1 * longest([name], whole=True))
        x += wide + _FONT * longest(axes.key_tokens[-1:]) * 0.65 + _GAP
        bottom = max(bottom, _TITLE + top + n_query * _CELL)
    for line, rule in enumerate(sorted(used)):
        y = bottom + _GAP / 2 + line * _LINE
        parts.append(
            f'<rect x="{_GAP:g}" y="{y:g}" width="16" height="16" fill="{_fill(rule)}" '
            f'stroke="{LIGHT.line}"/>'
            f'<text x="{_GAP + 24:g}" y="{y + 12:g}">{escape([visible, *rules][rule])}</text>'
        )
    tiles = f"<defs>{''.join(_tile(rule) for rule in sorted(used) if rule)}</defs>"
    size = max(x, 420.0), bottom + _GAP + len(used) * _LINE
    return _svg(size, _FONT, title, [tiles, *_heading(title, 20, 14), *parts])


def _fill(rule: int) -> str:
    return f"url(#rule-{rule})" if rule else LIGHT.paper


def _tile(rule: int) -> str:
    return (
        f'<pattern id="rule-{rule}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" fill="{LIGHT.rules[rule - 1]}" stroke="none"/>'
        f'<path d="{HATCHES[rule - 1]}" fill="none" stroke="{LIGHT.rule_marks[rule - 1]}" '
        'stroke-width="0.9"/></pattern>'
    )


def _svg(size: tuple[float, float], font: float, title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{size[0]:g}" '
        f'height="{size[1]:g}" viewBox="0 0 {size[0]:g} {size[1]:g}" '
        f'font-family="{escape(FONT)}" font-size="{font:g}" fill="{LIGHT.ink}">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>\n"])


def _heading(title: str, y: int, size: int) -> tuple[str, str]:
    return (
        f'<rect width="100%" height="100%" fill="{LIGHT.paper}"/>',
        f'<text x="{_GAP:g}" y="{y}" font-size="{size}" font-weight="600">{escape(title)}</text>',
    )


def _corner(axes: Axes, font: float) -> tuple[float, float]:
    """The room left of the cells and above them, for the labels."""
    return 30 + font * longest(axes.query_tokens), 48 + font * longest(axes.key_tokens) * 0.75


def _framed(
    at: tuple[float, float],
    name: str,
    name_at: float,
    axes: Axes,
    corner: tuple[float, float],
    cell: float,
    font: float,
) -> Iterator[str]:
    """Begin a group with a matrix's name, and the titles and tokens of its axes."""
    left, top = corner
    yield f'<g transform="translate({at[0]:g} {at[1]:g})">'
    yield f'<text x="{name_at:g}" y="14" font-size="12" font-weight="600">{escape(name)}</text>'
    turned = f'transform="translate(10 {top:g}) rotate(-90)" text-anchor="end"'
    for place, title, stream in (
        (turned, axes.query_title, axes.query_stream),
        (f'x="{left:g}" y="30"', axes.key_title, axes.key_stream),
    ):
        yield f'<text {place} font-size="11" fill="{LIGHT.stream(stream)}">{escape(title)}</text>'
    for index, token in enumerate(axes.query_tokens):
        y = top + (index + 0.5) * cell + font * 0.35
        yield f'<text x="{left - 4:g}" y="{y:g}" text-anchor="end"{_label(token)}'
    for index, token in enumerate(axes.key_tokens):
        x = left + (index + 0.5) * cell + font * 0.3
        yield f'<text transform="translate({x:g} {top - 4:g}) rotate(-50)"{_label(token)}'


def _label(token: str) -> str:
    """The rest of a token's text element; special tokens are muted."""
    ink = f' fill="{LIGHT.muted}"' if is_special(token) else ""
    return f"{ink}>{escape(_shown(token))}</text>"


def longest(tokens: Sequence[str], *, whole: bool = False) -> float:
    """Width of the widest label in units of the font size; a Chinese character counts as 1.

    Long token labels are truncated; `whole` measures the full text, for titles.
    """
    shown = tokens if whole else [_shown(token) for token in tokens]
    widths = (sum(0.6 if c < "\u1100" else 1.0 for c in bare(each)) for each in shown)
    return max(widths, default=0.0)


def _shown(token: str) -> str:
    return clipped(show(token), 16)


def _cells(shares: Floats, mask: Bools, scale: LegendScale) -> list[str]:
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
        f'stroke="{LIGHT.line}" stroke-width="0.06"/>',
        *(f'<path fill="{shades[shade]}" d="{"".join(runs[shade])}"/>' for shade in sorted(runs)),
    ]


def _shade(share: float, scale: LegendScale) -> str:
    """The colour at a position of a scale, interpolated between its stops."""
    stops = [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in scale.stops]
    at = np.linspace(0, 1, len(stops))
    channels = [round(float(np.interp(share, at, [stop[i] for stop in stops]))) for i in range(3)]
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def _legend(scale: LegendScale, blocked: str, y: float) -> list[str]:
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
