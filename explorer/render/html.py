"""Render blocks as one interactive HTML page that needs no server and no network."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

from explorer.components import standalone
from explorer.components.heads_view import pack_heads_view
from explorer.exhibits import block as b, saying
from explorer.exhibits.block import plain
from explorer.exhibits.view import View


@dataclass(frozen=True, eq=False)
class Reader:
    """The context for rendering blocks: their view, the prefix for names of saved pictures, and the
    function that draws each kind of block. Kinds without a function are omitted."""

    view: View
    file: str
    drawn: "Drawn"


Drawn = Mapping[type, Callable[[Any, Reader], Iterable[standalone.Block]]]


def page(title: str, blocks: Iterable[b.Block], view: View, file: str = "headlight") -> str:
    """The page; `file` is the prefix for names of pictures saved from it."""
    return standalone.page(title, list(kept(blocks, Reader(view, file, DRAWN))), view.lang)


def kept(blocks: Iterable[b.Block], to: Reader) -> Iterator[standalone.Block]:
    """The blocks for `standalone.page`: without controls, with all numbers."""
    for block in blocks:
        draw = to.drawn.get(type(block))
        if draw is not None:
            yield from draw(block, to)


def cells(head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """An HTML table of plain text."""

    def line(kind: str, row: Iterable[object]) -> str:
        inside = "".join(f"<{kind}>{escape(plain(str(cell)))}</{kind}>" for cell in row)
        return f"<tr>{inside}</tr>"

    return f"<table>{line('th', head)}{''.join(line('td', row) for row in rows)}</table>"


def _paragraph(kind: str, words: str) -> standalone.Markup:
    return standalone.Markup(f'<p class="{kind}">{escape(plain(words))}</p>')


def _told(block: b.Title | b.Prose | b.Hint, to: Reader) -> Iterator[standalone.Block]:
    kind = "reading" if isinstance(block, b.Title) else "prose"
    yield _paragraph(kind, block.words)


def _chart(block: b.Chart, to: Reader) -> Iterator[standalone.Block]:
    light, dark = block.draw(dark=False), block.draw(dark=True)
    yield standalone.Plot(light, plain(block.alt), b.picture_file(to.file, block.name), dark)


def _matrices(block: b.Matrices, to: Reader) -> Iterator[standalone.Block]:
    """The matrices, and a link to save them as an SVG."""
    yield from _canvas(block.canvas(to.view), to)
    file = escape(f"{b.picture_file(to.file, block.name)}.svg")
    link = f'<a download="{file}" href="data:image/svg+xml,{quote(block.svg())}">SVG</a>'
    yield standalone.Markup(f'<p class="note">{link}</p>')


def _canvas(block: b.Canvas, to: Reader) -> Iterator[standalone.Block]:
    yield standalone.Component(block.view, block.payload(b.picture_file(to.file, block.name)))


def _all_heads(block: b.AllHeads, to: Reader) -> Iterator[standalone.Block]:
    file = b.picture_file(to.file, block.name)
    yield standalone.Component(
        "heads_view", pack_heads_view(block.grid, file=file, **block.options)
    )


def _table(block: b.Table, to: Reader) -> Iterator[standalone.Block]:
    yield standalone.Markup(cells(block.head, block.rows))


def _metrics(block: b.Metrics, to: Reader) -> Iterator[standalone.Block]:
    labels, values = zip(*block.values, strict=True)
    yield standalone.Markup(cells(labels, [values]))


def _numbers(block: b.Numbers, to: Reader) -> Iterator[standalone.Block]:
    columns = block.columns()
    table = cells(columns, zip(*columns.values(), strict=True))
    yield _folded(to.view.t("more.numbers"), table)


def _formula(block: b.Formula, to: Reader) -> Iterator[standalone.Block]:
    lines = "\n".join(to.view.formula(line) for line in block.lines)
    inside = f"<pre>{escape(lines)}</pre>{legend(block.explained)}"
    yield _folded(to.view.t("more.formula"), inside)


def legend(words: str) -> str:
    """The legend of a formula as HTML: a list of its symbols, and paragraphs."""
    return "".join(_legend_part(part) for part in plain(words).split("\n\n"))


def _legend_part(words: str) -> str:
    if not words.startswith("- "):
        return f"<p>{escape(words)}</p>"
    items = "".join(f"<li>{escape(line[2:])}</li>" for line in words.split("\n"))
    return f"<ul>{items}</ul>"


def _folded(label: str, inside: str) -> standalone.Markup:
    return standalone.Markup(f"<details><summary>{escape(label)}</summary>{inside}</details>")


def _verbatim(block: b.Verbatim, to: Reader) -> Iterator[standalone.Block]:
    yield standalone.Markup(f"<pre>{escape(block.text)}</pre>")


def _inside(block: b.Row | b.Pane | b.Hero, to: Reader) -> Iterator[standalone.Block]:
    yield from kept(block.blocks, to)


def _fold(block: b.Fold, to: Reader) -> Iterator[standalone.Block]:
    yield from kept(block.blocks if block.inline else (), to)


def _columns(block: b.Columns, to: Reader) -> Iterator[standalone.Block]:
    drawn = [list(kept(column, to)) for column in block.columns]
    side_by_side = all(
        isinstance(part, standalone.Component) for column in drawn for part in column[1:]
    )
    if not side_by_side:
        yield from (part for column in drawn for part in column)
        return
    yield standalone.Markup('<div class="row">')
    for column in drawn:
        yield standalone.Markup("<div>")
        yield from column
        yield standalone.Markup("</div>")
    yield standalone.Markup("</div>")


def said_of(view: View, output: str | None = None) -> Iterator[standalone.Paragraph]:
    """The text and, if there is one, the `output`, by default the model's own."""
    yield standalone.Paragraph(view.text)
    if words := view.trace.output if output is None else output:
        yield standalone.Paragraph(words)


def _sentence(block: b.SentenceLine, to: Reader) -> Iterator[standalone.Block]:
    yield from said_of(block.view or to.view, block.output)


def _changes(block: b.Changes, to: Reader) -> Iterator[standalone.Block]:
    named = [saying.name_edit(to.view, edit) for edit in to.view.trace.edits]
    if to.view.pads:
        named.append(to.view.t("edits.pads", count=to.view.pads))
    if named:
        yield _paragraph("note", f"{to.view.t('edits.active')} {' · '.join(named)}")


DRAWN: Drawn = {
    b.Title: _told,
    b.Prose: _told,
    b.Hint: _told,
    b.Note: lambda block, _: (_paragraph("note", block.words),),
    b.Sentence: lambda block, _: (standalone.Paragraph(plain(block.words), is_reading=True),),
    b.Verbatim: _verbatim,
    b.Chart: _chart,
    b.Matrices: _matrices,
    b.Canvas: _canvas,
    b.AllHeads: _all_heads,
    b.Table: _table,
    b.Metrics: _metrics,
    b.Formula: _formula,
    b.Numbers: _numbers,
    b.Row: _inside,
    b.Pane: _inside,
    b.Hero: _inside,
    b.Fold: _fold,
    b.Columns: _columns,
    b.SentenceLine: _sentence,
    b.Changes: _changes,
}
