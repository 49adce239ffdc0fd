"""Controls shared by several exhibits, and charts below their titles."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from explorer.exhibits import View
from explorer.exhibits.block import Block, Change, Chart, Figure, Note, Pane, Pick, Title, choose
from models.rows import Stream


def titled(
    view: View, name: str, draw: Callable[..., Figure], title: str = "", note: str = ""
) -> tuple[Block, ...]:
    """A chart below its title, by default the text at `name`, and above its note if it has one.

    "note" stands for the text at `NAME_note`.
    """
    title = title or view.t(name)
    noted = view.t(f"{name}_note") if note == "note" else note
    return (Title(title), Chart(name, draw, title), *([Note(noted)] if noted else []))


def pick_place(view: View, page: str, kind: bool = True) -> tuple[Pick | Pane, ...]:
    """Kind of attention (unless `kind` is False), layer and head."""
    layers, heads = range(len(view.sites_of(view.kind))), range(view.site.n_heads)
    return (
        *([pick_kind(view, page)] if kind else []),
        Pane((_number(view, page, "layer", layers, view.layer),), 100),
        Pane((_number(view, page, "head", heads, view.head),), 100),
    )


def pick_kind(view: View, page: str) -> Pick:
    """Kind of attention."""
    return Pick(
        f"{page}.kind",
        view.t("place.kind"),
        view.kinds,
        view.kind,
        lambda kind: view.t(f"kinds.{kind}"),
        change=lambda kind: choose(elsewhere=True, site=kind),
    )


def _number(view: View, page: str, name: str, options: Sequence[int], now: int) -> Pick:
    """A menu of numbers; the other number does not change."""

    def change(number: int) -> Change:
        place: dict[str, Any] = {"layer": view.layer, "head": view.head, name: number}
        return choose(**place)

    return pick_number(view, f"{page}.{name}", f"place.{name}", options, now, change)


def pick_number(
    view: View, key: str, label: str, options: Sequence[int], now: int, change: Callable[[int], Any]
) -> Pick:
    """A menu of indices, shown from 1; the label's text is at `label`."""
    return Pick(key, view.t(label), options, now, lambda at: str(at + 1), change=change, menu=True)


def pick_group(
    view: View,
    key: str,
    groups: Mapping[str, Sequence[str]],
    now: str,
    change: Callable[[str], Change],
) -> Pick:
    """A group of items; another group opens its first item, with `change`. Texts are at `key` and
    `KEYs.GROUP`.
    """

    def said(group: str) -> str:
        return view.t(f"{key}s.{group}")

    options = tuple(groups)
    return Pick(key, view.t(key), options, now, said, change=lambda name: change(groups[name][0]))


def pick_one(
    view: View, key: str, options: Sequence[str], now: str, field: str = "", said: str = ""
) -> Pick:
    """A choice among options, with its label at `key` and texts at `KEY_OPTION`, or `saidOPTION`.

    `field` is the last part of the key unless given.
    """
    texts = said or f"{key}_"

    def words(option: str) -> str:
        return view.t(texts + option)

    return Pick(key, view.t(key), options, now, words, field or key.rpartition(".")[2])


def pick_token(
    view: View,
    key: str,
    label: str,
    tokens: Sequence[str],
    now: int,
    field: str = "",
    change: Callable[[int], Change] | None = None,
    width: int = 260,
) -> Pick:
    """A menu of the places in a token sequence, each with its token; the label's text is at
    `label`.
    """

    def said(place: int) -> str:
        return f"{place} · {tokens[place]}"

    places, title = range(len(tokens)), view.t(label)
    return Pick(key, title, places, now, said, field, change, menu=True, width=width)


def pick_stream(
    view: View, key: str, streams: tuple[Stream, ...] | None = None
) -> tuple[Pick, ...]:
    """Token sequence, by default of the open model; no control if there is one only."""
    streams = view.loaded.model.reads if streams is None else streams
    now = next((stream for stream in streams if stream == view.chosen("chosen_stream")), streams[0])

    def said(stream: str) -> str:
        return view.t(f"streams.{stream}")

    one = Pick(key, view.t("streams.which"), streams, now, said, "stream")
    return (one,) if len(streams) > 1 else ()
