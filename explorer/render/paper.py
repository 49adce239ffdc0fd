"""Render blocks as a report for print: static pictures, with formulas and numbers expanded."""

from collections.abc import Iterable, Iterator
from html import escape

from explorer.components import standalone
from explorer.components.standalone import Markup
from explorer.exhibits import block as b
from explorer.exhibits.view import View
from explorer.render import html
from explorer.render.html import Reader


def report(title: str, blocks: Iterable[b.Block], view: View, file: str = "headlight") -> str:
    """The report as an HTML page for print; it begins with the text and the output."""
    paragraphs = list(html.said_of(view))
    drawn = list(html.kept(blocks, Reader(view, file, DRAWN)))
    return standalone.page(title, [*paragraphs, *drawn], view.lang)


def stills(blocks: Iterable[b.Block], view: View) -> Iterator[str]:
    """The pictures that have a static form, as SVG; Plotly charts need a browser and have none."""
    for block in blocks:
        if isinstance(block, b.Columns) and block.still is not None:
            yield block.still()
        elif isinstance(block, b.Matrices):
            yield block.svg()
        elif isinstance(block, b.Row | b.Pane | b.Hero):
            yield from stills(block.blocks, view)
        elif isinstance(block, b.Columns):
            for column in block.columns:
                yield from stills(column, view)


def _figure(svg: str) -> Markup:
    return Markup(f"<figure>{svg}</figure>")


def _columns(block: b.Columns, to: Reader) -> Iterator[standalone.Block]:
    if block.still is not None:
        yield _figure(block.still())
        return
    for column in block.columns:
        yield from html.kept(column, to)


def _numbers(block: b.Numbers, to: Reader) -> Iterator[Markup]:
    columns = block.columns()
    yield Markup(html.cells(columns, zip(*columns.values(), strict=True)))


def _formula(block: b.Formula, to: Reader) -> Iterator[Markup]:
    lines = "\n".join(to.view.formula(line) for line in block.lines)
    yield Markup(f"<pre>{escape(lines)}</pre>{html.legend(block.explained)}")


def _sentence(block: b.SentenceLine, to: Reader) -> Iterable[standalone.Block]:
    """Another text or output than the one that the report begins with."""
    own = block.view is None and block.output is None
    return () if own else html.said_of(block.view or to.view, block.output)


DRAWN: html.Drawn = {
    **html.DRAWN,
    b.Matrices: lambda block, _: (_figure(block.svg()),),
    b.Columns: _columns,
    b.Numbers: _numbers,
    b.Formula: _formula,
    b.SentenceLine: _sentence,
}
