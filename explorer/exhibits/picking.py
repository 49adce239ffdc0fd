"""Controls shared by several exhibits, and charts below their titles."""

from collections.abc import Callable, Sequence
from typing import Any

from explorer.analysis.heads.sinks import MANY
from explorer.exhibits import PageChoices, View, block as b
from explorer.exhibits.choices import PartChoices
from explorer.figures.matrix import Matrix


def titled(
    view: View, name: str, drawn: Callable[..., b.Figure] | Matrix, title: str = "", note: str = ""
) -> tuple[b.Block, ...]:
    """A chart or a matrix below its title, by default the text at `name`, and above its note if it
    has one."""
    title = title or view.t(name)
    picture: b.Block
    if isinstance(drawn, Matrix):
        picture = b.Matrices(name, ((title, drawn),), captioned=False)
    else:
        picture = b.Chart(name, drawn, title)
    return (b.Title(title), picture, *([b.Note(note)] if note else []))


def pick_place(view: View, page: str, kind: bool = True) -> tuple[b.Pick | b.Pane, ...]:
    """Kind of attention (unless `kind` is False), layer and head."""
    layers, heads = range(len(view.sites_of(view.kind))), range(view.site.n_heads)
    return (
        *([pick_kind(view, page)] if kind else []),
        b.Pane((_number(view, page, "place.layer", layers, view.layer),), 100),
        b.Pane((_number(view, page, "place.head", heads, view.head),), 100),
    )


def pick_kind(view: View, page: str) -> b.Pick:
    """Kind of attention."""
    more = b.More(said="kinds.short", change=lambda kind: b.choose(elsewhere=True, site=kind))
    return pick_one(view, f"{page}.kind", view.kinds, view.kind, label="place.kind", **more)


def _number(view: View, page: str, label: str, options: Sequence[int], now: int) -> b.Pick:
    """A menu of numbers; the other number does not change."""
    name = _field(label)

    def change(number: int) -> b.Change:
        place: dict[str, Any] = {"layer": view.layer, "head": view.head, name: number}
        return b.choose(**place)

    return pick_number(view, f"{page}.{name}", label, options, now, change)


def pick_number(
    view: View, key: str, label: str, options: Sequence[int], now: int, change: Callable[[int], Any]
) -> b.Pick:
    """A menu of indices, shown from 1; the label's text is at `label`."""
    return b.Pick(key, view.t(label), {at: str(at + 1) for at in options}, now, change, "menu")


def pick_part(view: View, page: str, choices: type[PageChoices], now: str) -> b.Row:
    """The part of a page; if its parts have groups, first the group, which opens its first part."""
    more, parts, groups = b.More(label="place.part", quiet=True), [*choices.parts], choices.groups
    picks = []
    if groups:
        group, parts = next((name, [*own]) for name, own in groups.items() if now in own)
        opens = b.More(change=lambda name: b.choose(part=groups[name][0]))
        picks.append(pick_one(view, f"{page}.group", tuple(groups), group, **more, **opens))
    picks.append(pick_one(view, f"{page}.part", parts, now, **more))
    return b.Row(picks, align="top", gap="medium")


def pick_one(
    view: View,
    key: str,
    options: Sequence[Any],
    now: Any,
    field: str = "",
    said: str | Callable[[Any], str] = "",
    label: str = "",
    change: Callable[[Any], b.Change] | None = None,
    form: b.PickForm = "buttons",
    **display: Any,
) -> b.Pick:
    """A choice among options, with its label's text at `label` or else at `key`.

    `said` names an option, or is the table of the options' texts, by default `KEYs`. Without a
    `change`, it sets the choice `field`, by default the last part of the key.
    """
    change, table = change or b.sets(_field(key, field)), said or f"{key}s"
    named = {o: table(o) if callable(table) else view.t(table, str(o)) for o in options}
    return b.Pick(key, view.t(label or key), named, now, change, form, b.Display(**display))


def pick_aside(view: View, key: str, label: str, asides: Sequence[str], now: str) -> b.Blocks:
    """A menu of asides, of which at most one is open, "" for none. Texts at `label` and
    `SUBJECT.asides.NAME`."""
    page, names = key.partition(".")[0], {"": view.t("place.none_chosen")}
    names |= {name: view.t(page, "asides", name) for name in asides}
    more = b.More(said=names.__getitem__, label=label, form="menu", width=280)
    yield pick_one(view, key, tuple(names), now, **more)


def slider(
    view: View,
    key: str,
    scale: b.Span | Sequence[int],
    now: float,
    typed: bool = False,
    display: b.Display = b.Display(),  # noqa: B008
) -> b.Slider:
    """A slider that sets a choice, with its label's text at `key`, whose last part is the
    choice."""
    return b.Slider(key, view.t(key), scale, now, b.sets(_field(key)), typed, display)


def toggle(view: View, key: str, now: bool, **more: Any) -> b.Toggle:
    """A switch that sets a choice, as `slider` does."""
    return b.Toggle(key, view.t(key), now, b.sets(_field(key)), **more)


def pick_sinks(view: View) -> b.Toggle:
    """Whether patterns are drawn without each head's sinks."""
    now = view.choices(PartChoices).without_sinks
    return toggle(view, "sinks.without_sinks", now, help=view.t("sinks.help", many=MANY))


def _field(key: str, field: str = "") -> str:
    return field or key.rpartition(".")[2]


def pick_token(
    view: View,
    key: str,
    label: str,
    tokens: Sequence[str],
    now: int,
    field: str = "",
    change: Callable[[int], b.Change] | None = None,
    width: int = 260,
) -> b.Pick:
    """A menu of the places in a token sequence, each with its token; the label's text is at
    `label`."""

    places = {place: f"{place} · {token}" for place, token in enumerate(tokens)}
    change = change or b.sets(_field(key, field))
    return b.Pick(key, view.t(label), places, now, change, "menu", b.Display(width))


def pick_stream(view: View, key: str) -> tuple[b.Pick, ...]:
    """Token sequence; no control if the model has only one."""
    streams = view.loaded.model.reads
    names = {stream: view.t("streams", stream) for stream in streams}
    one = b.Pick(key, view.t("streams.which"), names, view.sequence, b.sets("stream"))
    return (one,) if len(streams) > 1 else ()
