"""The whole machine as a page of boxes that stand in columns and open what they show."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from explorer.figures.theme import FONT, Stream, palette


@dataclass(frozen=True)
class Box:
    """One part: its name, the shapes below it, a number on the right, and where a click leads.

    `href` "" leads nowhere. All texts are shown as they are, never as markup.
    """

    name: str
    shape: str
    note: str = ""
    href: str = ""


@dataclass(frozen=True)
class Column:
    """A stream: its title, and from the bottom of the model up groups of boxes with theirs."""

    title: str
    stream: Stream
    groups: tuple[tuple[str, tuple[Box, ...]], ...]


def diagram(columns: Sequence[Column], *, dark: bool = False) -> str:
    """HTML of one or two columns side by side; on a narrow screen one above the other.

    The groups of a single column stand side by side too, to be read line by line.
    """
    colours = palette(dark)
    style = f"""
<style>
.machine {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(290px, 1fr));
  gap: 1.5rem; font-family: {FONT}; color: {colours.ink}; max-width: 1100px; }}
.machine.one > div {{ display: grid; gap: 0 .75rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(270px, 1fr)); }}
.machine.one h4 {{ grid-column: 1 / -1; }}
.machine h4 {{ margin: 0 0 .5rem; font-size: 1rem; font-weight: 700; padding: 0; }}
.machine section {{ border: 1px solid {colours.line}; border-radius: 10px; padding: .5rem;
  margin-bottom: .6rem; }}
.machine section > small {{ color: {colours.muted}; display: block; margin: 0 .35rem .25rem; }}
.machine .part {{ display: grid; grid-template-columns: 1fr auto; gap: 0 .75rem;
  padding: .3rem .5rem; border-left: 3px solid transparent; border-radius: 4px;
  color: inherit; text-decoration: none; margin: 2px 0; }}
.machine a.part:hover, .machine a.part:focus {{ outline: 2px solid {colours.accent}; }}
.machine .part code {{ grid-column: 1; font-size: .78rem; color: {colours.muted};
  background: none; padding: 0; }}
.machine .part b {{ font-weight: 600; }}
.machine .part i {{ font-style: normal; font-size: .78rem; color: {colours.muted};
  text-align: right; font-variant-numeric: tabular-nums; }}
.machine a.part b::after {{ content: " ↗"; color: {colours.muted}; font-weight: 400; }}
.machine .src .part {{ border-left-color: {colours.source}; background: {colours.source_soft}55; }}
.machine .tgt .part {{ border-left-color: {colours.target}; background: {colours.target_soft}55; }}
.machine .src h4 {{ color: {colours.source}; }} .machine .tgt h4 {{ color: {colours.target}; }}
</style>"""
    body = "".join(_column(column) for column in columns)
    kind = "machine one" if len(columns) == 1 else "machine"
    return f'{style}<div class="{kind}">{body}</div>'


def _column(column: Column) -> str:
    groups = "".join(
        f"<section>{f'<small>{escape(title)}</small>' if title else ''}"
        f"{''.join(map(_box, boxes))}</section>"
        for title, boxes in column.groups
    )
    return f'<div class="{column.stream}"><h4>{escape(column.title)}</h4>{groups}</div>'


def _box(box: Box) -> str:
    inside = f"<b>{escape(box.name)}</b><i>{escape(box.note)}</i><code>{escape(box.shape)}</code>"
    if not box.href:
        return f'<div class="part">{inside}</div>'
    return f'<a class="part" target="_self" href="{escape(box.href, quote=True)}">{inside}</a>'
