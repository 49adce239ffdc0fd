"""Matrices as SVG without a browser.

The SVG is written as text: it loads nothing and has no scripts, and text from users is escaped.
Cells of one colour form one path, with one rectangle per run of cells, so 8 heads of 128 tokens
stay under a megabyte. The colours are light in the dark theme too.
"""

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from explorer.figures.frame import Bools, Floats, Words
from explorer.figures.matrix import Axes, Axis, Matrix, Scale
from explorer.figures.theme import FONT, LIGHT, Stream, bare, clipped, is_special, show
from explorer.text import t

LEVELS = 65
"""Shades of a scale, odd so that one is the middle; weights that differ by less than 1.6 % may look
the same."""
HATCHES = (
    "M-1 1L1 -1M0 6L6 0M5 7L7 5",
    "M-1 5L1 7M0 0L6 6M5 -1L7 1",
    "M0 3L6 3",
    "M-1 1L1 -1M0 6L6 0M5 7L7 5M-1 5L1 7M0 0L6 6M5 -1L7 1",
    "M3 0L3 6",
    "M2 2h1.5v1.5h-1.5z",
)
"""One tile of 6 x 6 pixels for each rule, as `components/canvas.js` draws them."""
SHAPES = {
    "circle": "M-.36 0a.36 .36 0 1 0 .72 0a.36 .36 0 1 0 -.72 0z",
    "square": "M-.36 -.36h.72v.72h-.72z",
    "diamond": "M0 -.36L.36 0L0 .36L-.36 0z",
}
"""The marks, in units of a cell, around its centre."""
_GAP, _TITLE, _LINE, _WIDEST, _MOST = 32.0, 30.0, 22.0, 1600.0, 4

Titled = tuple[str, Matrix]


def axes_of(
    labels: tuple[Sequence[str], Sequence[str]],
    streams: tuple[Stream | None, Stream | None],
    lang: str,
    own: str = "",
) -> Axes:
    """Queries and keys with titles such as "query · source". `own` is the name of the only sequence
    among the texts `streams`, for a model without an encoder."""
    axes = []
    for role, tokens, stream in zip(("query", "key"), labels, streams, strict=True):
        title = name = t("figures.heatmap", role, lang=lang)
        if stream is not None:
            title = t("streams", role, lang=lang, stream=t("streams", own or stream, lang=lang))
        axes.append(Axis(tokens, title, stream, name))
    return axes[0], axes[1]


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
    its weight. `names` are the titles of the heads, by default their numbers.
    """
    if names is None:
        names = [f"{words['head']} {head + 1}" for head in range(len(patterns))]
    scale = Scale("attention", 0, 1, words["weight"], ((0, "0"), (1, "100 %")))
    rules = ("", words["blocked"])
    heads = [Matrix(axes, patterns[at], scale, ~mask[at], rules) for at in range(len(patterns))]
    return matrices_svg(list(zip(names, heads, strict=True)), title=title)


def matrices_svg(panels: Sequence[Titled], *, title: str) -> str:
    """Matrices with their titles side by side below a common `title`, and one legend for each of
    their scales and rules."""
    rules: dict[tuple[str, str], str] = {}
    scales: dict[tuple[str, str], Scale] = {}
    parts: list[str] = []
    x, y, bottom, right, in_row = _GAP, _TITLE if title else 0.0, 0.0, 0.0, 0
    for name, matrix in panels:
        left, top, cell, font = _sizes(matrix)
        wide = max(left + matrix.shape[1] * cell[0], 6.6 * len(name))
        if in_row == _MOST or (in_row and x + wide > _WIDEST):
            x, y, in_row = _GAP, bottom + _GAP, 0
        parts += [f'<g transform="translate({x:g} {y:g})" font-size="{font:g}">']
        parts += [*_framed(name, matrix, (left, top), cell, font)]
        parts += [f'<g transform="translate({left:g} {top:g}) scale({cell[0]:g} {cell[1]:g})">']
        parts += [*_cells(matrix), "</g>", *_written(matrix, (left, top), cell), "</g>"]
        in_row, x = in_row + 1, x + wide + _GAP
        right, bottom = max(right, x), max(bottom, y + top + matrix.shape[0] * cell[1])
        if matrix.scale is not None and matrix.scale.ticks:
            scales[matrix.scale.title, str(matrix.scale.ticks)] = matrix.scale
        for rule in np.unique(matrix.codes).tolist():
            if rule or matrix.scale is None:
                rules[_fill(matrix, rule), matrix.rules[rule]] = _tile(matrix, rule)
    y = bottom + _GAP / 2
    for scale in scales.values():
        parts += _bar(scale, y)
        y += _LINE
    marks = {mark.name: mark.shape for _, matrix in panels for mark in matrix.marks if mark.name}
    for fill, meaning in rules:
        where = f'transform="translate({_GAP:g} {y:g}) scale(16)" width="1" height="0.75"'
        swatch = f'<rect {where} fill="{fill}" stroke="{LIGHT.line}" stroke-width="0.06"/>'
        parts.append(swatch + _text(_GAP + 24, y + 10, meaning))
        y += _LINE
    for meaning, shape in marks.items():
        where = f'transform="translate({_GAP + 8:g} {y + 6:g}) scale(16)"'
        swatch = f'<path {where} {_MARKED} d="{SHAPES[shape]}"/>'
        parts.append(swatch + _text(_GAP + 24, y + 10, meaning))
        y += _LINE
    size = max(right, 420.0), y + _GAP / 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{size[0]:g}" '
        f'height="{size[1]:g}" viewBox="0 0 {size[0]:g} {size[1]:g}" '
        f'font-family="{escape(FONT)}" font-size="11" fill="{LIGHT.ink}">'
    )
    heading = (
        f"<title>{escape(title)}</title><defs>{''.join(dict.fromkeys(rules.values()))}</defs>"
        f'<rect width="100%" height="100%" fill="{LIGHT.paper}"/>'
        f'<text x="{_GAP:g}" y="22" font-size="15" font-weight="600">{escape(title)}</text>'
    )
    return "\n".join([head, heading, *parts, "</svg>\n"])


_MARKED = f'fill="none" stroke="{LIGHT.target}" stroke-width="0.12"'


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{escape(text)}</text>'


def _sizes(matrix: Matrix) -> tuple[float, float, tuple[float, float], float]:
    """The room left of the cells and above them, the size of a cell, and of the labels' font."""
    rows, columns = matrix.axes
    side = max(4.0, min(18.0, 420 / max(*matrix.shape, 1)))
    font = max(3.0, min(12.0, side * 0.8))
    cell = max(side, matrix.least[0]), max(side, matrix.least[1])
    above = 0.0 if columns.numbered else font * longest(columns.labels) * 0.75
    return 30 + font * longest(rows.labels), 48 + above, cell, font


def _framed(
    name: str, matrix: Matrix, corner: tuple[float, float], cell: tuple[float, float], font: float
) -> Iterator[str]:
    """A matrix's name, and the titles and labels of its axes."""
    (left, top), (rows, columns) = corner, matrix.axes
    yield _text(left, 14, name, ' font-size="12" font-weight="600"')
    turned = f'transform="translate(10 {top:g}) rotate(-90)" text-anchor="end"'
    for place, axis in ((turned, rows), (f'x="{left:g}" y="30"', columns)):
        ink = LIGHT.stream(axis.stream) if axis.stream else LIGHT.muted
        yield f'<text {place} font-size="11" fill="{ink}">{escape(axis.title)}</text>'
    for at, label in _labels(rows, cell[1]):
        y = top + (at + 0.5) * cell[1] + font * 0.35
        yield f'<text x="{left - 4:g}" y="{y:g}" text-anchor="end"{label}'
    turn = 'text-anchor="middle"' if columns.numbered else ""
    for at, label in _labels(columns, cell[0]):
        x = left + (at + 0.5) * cell[0] + (0 if columns.numbered else font * 0.3)
        lean = "" if columns.numbered else " rotate(-50)"
        yield f'<text transform="translate({x:g} {top - 4:g}){lean}" {turn}{label}'


def _labels(axis: Axis, side: float) -> Iterator[tuple[int, str]]:
    """Each label as the rest of its text element; special tokens are muted. Of numbers, as many as
    fit."""
    for at in range(0, len(axis.labels), max(1, round(24 / side)) if axis.numbered else 1):
        if (label := axis.labels[at]) is not None:
            ink = f' fill="{LIGHT.muted}"' if is_special(label) else ""
            yield at, f"{ink}>{escape(_shown(label))}</text>"


def longest(labels: Sequence[str | None]) -> float:
    """Width of the widest label in units of the font size; a Chinese character counts as 1."""
    shown = [_shown(label) for label in labels if label is not None]
    widths = (sum(0.6 if c < "\u1100" else 1.0 for c in bare(label)) for label in shown)
    return max(widths, default=0.0)


def _shown(token: str) -> str:
    return clipped(show(token), 16)


def _cells(matrix: Matrix) -> Iterator[str]:
    """A background and one path per shade and rule, marks and outlines, in units of cells."""
    (n_rows, n_columns), codes, scale = matrix.shape, matrix.codes, matrix.scale
    level, ground = np.zeros(matrix.shape, int), LIGHT.paper
    if scale is not None and matrix.values is not None:
        shares = np.nan_to_num((matrix.values - scale.low) / (scale.high - scale.low), posinf=1)
        level = np.rint(np.clip(shares, 0, 1) * (LEVELS - 1)).astype(int)
        middle = LEVELS // 2 if scale.colours == "diverging" else 0
        ground = shade(middle / (LEVELS - 1), scale)
        level[level == middle] = LEVELS  # the background
        level[np.isnan(matrix.values)] = LEVELS + 1
    elif scale is None:
        level += LEVELS
    level = np.where(codes > 0, -codes.astype(int), level)
    runs: dict[int, list[str]] = {}
    for query, cells in enumerate(level):
        starts = np.flatnonzero(np.diff(cells, prepend=LEVELS + 2))
        for start, end in zip(starts, [*starts[1:], n_columns], strict=True):
            n = end - start
            runs.setdefault(int(cells[start]), []).append(f"M{start} {query}h{n}v1h-{n}z")
    runs.pop(LEVELS, None)
    frame = f'stroke="{LIGHT.line}" stroke-width="0.06"'
    yield f'<rect width="{n_columns}" height="{n_rows}" fill="{ground}" {frame}/>'
    for at in sorted(runs):
        fill = _fill(matrix, -at) if at < 0 else LIGHT.paper
        if scale is not None and 0 <= at < LEVELS:
            fill = shade(at / (LEVELS - 1), scale)
        yield f'<path fill="{fill}" d="{"".join(runs[at])}"/>'
    if scale is None:
        lines = "".join(
            [f"M{at} 0v{n_rows}" for at in range(1, n_columns)]
            + [f"M0 {at}h{n_columns}" for at in range(1, n_rows)]
        )
        yield f'<path fill="none" {frame} d="{lines}"/>'
    for mark in matrix.marks:
        for marked in mark.cells:
            where = f'transform="translate({marked[1] + 0.5:g} {marked[0] + 0.5:g})"'
            yield f'<path {where} {_MARKED} d="{SHAPES[mark.shape]}"/>'
    if matrix.selected is not None:
        row, column = matrix.selected
        width, height = 1 if column is not None else n_columns, 1 if row is not None else n_rows
        box = f'x="{column or 0}" y="{row or 0}" width="{width}" height="{height}"'
        yield f'<rect {box} fill="none" stroke="{LIGHT.accent}" stroke-width="0.12"/>'


def _written(
    matrix: Matrix, corner: tuple[float, float], cell: tuple[float, float]
) -> Iterator[str]:
    """The texts in cells, in black or white."""
    if matrix.written is None:
        return
    for (row, column), text in np.ndenumerate(np.asarray(matrix.written, object)):
        blank = matrix.values is not None and np.isnan(matrix.values[row, column])
        ink, scale = LIGHT.ink, matrix.scale
        if scale is not None and matrix.values is not None and not blank:
            share = (matrix.values[row, column] - scale.low) / (scale.high - scale.low)
            red, green, blue = _channels(shade(float(np.clip(share, 0, 1)), scale))
            ink = LIGHT.ink if 0.3 * red + 0.59 * green + 0.11 * blue > 128 else LIGHT.paper
        lines = str(text).split("\n") if text else []
        for at, line in enumerate(lines):
            x = corner[0] + (column + (0 if blank else 0.5)) * cell[0]
            y = corner[1] + (row + 0.5) * cell[1] + 4 + (at - (len(lines) - 1) / 2) * 13
            style = "" if blank else ' text-anchor="middle"'
            style += f' font-size="11" fill="{ink}"'
            yield _text(x, y, line if blank else clipped(line, max(3, int(cell[0] / 6))), style)


def _fill(matrix: Matrix, rule: int) -> str:
    """The fill of a rule: a heatmap has one hatching, without a colour of its own."""
    if not rule:
        return LIGHT.paper
    return f"url(#rule-{rule})" if matrix.scale is None else "url(#h)"


def _tile(matrix: Matrix, rule: int) -> str:
    """The hatching of this fill, in units of a cell."""
    if not rule:
        return ""
    name, ground, ink = "h", LIGHT.blocked, LIGHT.hatch
    if matrix.scale is None:
        name, ground, ink = f"rule-{rule}", LIGHT.rules[rule - 1], LIGHT.rule_marks[rule - 1]
    return (
        f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="scale(0.0625)"><rect width="6" height="6" fill="{ground}"/>'
        f'<path d="{HATCHES[rule - 1]}" fill="none" stroke="{ink}" stroke-width="0.9"/></pattern>'
    )


def shade(share: float, scale: Scale) -> str:
    """The colour at a position of a scale, 0 to 1, interpolated between its stops."""
    stops = [_channels(stop) for stop in getattr(LIGHT, scale.colours)]
    at = np.linspace(0, 1, len(stops))
    channels = [round(float(np.interp(share, at, [stop[i] for stop in stops]))) for i in range(3)]
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def _channels(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return red, green, blue


def _bar(scale: Scale, y: float) -> Iterator[str]:
    for step in range(20):
        place = f'x="{_GAP + step * 5:g}" y="{y:g}" width="5" height="10"'
        yield f'<rect {place} fill="{shade(step / 19, scale)}"/>'
    ends = " … ".join(dict.fromkeys(label for _, label in (scale.ticks[0], scale.ticks[-1])))
    yield _text(_GAP + 106, y + 9, f"{ends} {scale.title}")
