"""The parts of the loaded model as boxes: words, shapes, and links into the other pages."""

from urllib.parse import urlencode

from explorer.analysis.machine.parts import Station, Tower
from explorer.components import Box, Column
from explorer.exhibits.view import View
from explorer.pages.machine.choices import MachineChoices
from explorer.text import in_units
from explorer.ui import session

OPENS = {
    "embedding": "cell",
    "positions": "positions",
    "rotation": "positions",
    "bias": "positions",
    "self": "heads",
    "cross": "heads",
    "norm": "blocks",
    "add": "blocks",
    "ffn": "blocks",
    "final_norm": "blocks",
    "unembed": "decoding",
}
"""The page that explains a part; a part whose page is not in the menu has no link."""


def columns(view: View, towers: tuple[Tower, ...]) -> tuple[Column, ...]:
    """The stacks as columns of labelled boxes."""
    return tuple(_column(view, tower) for tower in towers)


def _column(view: View, tower: Tower) -> Column:
    def boxes(stations: tuple[Station, ...], layer: int | None = None) -> tuple[Box, ...]:
        return tuple(_box(view, tower, station, layer) for station in stations)

    whole, end = shown_layer(tower, view), len(tower.layers)
    layers = [_folded(view, tower, 0, whole)] if whole else []
    layers.append((view.t("machine.layer", layer=whole + 1), boxes(tower.layers[whole], whole)))
    if whole + 1 < end:
        layers.append(_folded(view, tower, whole + 1, end))
    after = ((view.t("machine.after"), boxes(tower.after)),) if tower.after else ()
    parameters = in_units(tower.parameters, lang=view.lang)
    return Column(
        view.t(f"machine.{tower.role}", parameters=parameters),
        tower.stream,
        ((view.t("machine.before"), boxes(tower.before)), *layers, *after),
    )


def shown_layer(tower: Tower, view: View) -> int:
    """The layer drawn part by part: the chosen one, else the first."""
    return min(view.choices(MachineChoices).unfolded, len(tower.layers) - 1)


def _folded(view: View, tower: Tower, first: int, end: int) -> tuple[str, tuple[Box, ...]]:
    """Layers `first` to `end` - 1 as one box: their number, the stream's shape, their
    parameters."""
    folded = [station for layer in tower.layers[first:end] for station in layer]
    title = view.t("machine.folded", first=first + 1, last=end)
    if end == first + 1:
        title = view.t("machine.layer", layer=end)
    name = view.t("machine.folded_layers", count=end - first)
    note = f"{sum(station.parameters for station in folded):,}"
    return title, (Box(name, _shape(folded[-1].shape), note),)


def _box(view: View, tower: Tower, station: Station, layer: int | None) -> Box:
    shape = _shape(station.shape)
    if station.inside:
        shape = f"{_shape(station.inside)} → {shape}"
    note = f"{station.parameters:,}" if station.parameters else ""
    if station.what == "unembed" and not station.parameters:
        note = view.t("machine.tied_note")
    if station.what == "add":
        shape, note = "", shape
    return Box(
        view.t(f"machine.parts.{station.what}"),
        shape,
        note,
        _href(view, tower, station, layer),
        skips=station.skips,
        sends="memory" if station.what == "memory" else "",
        receives="memory" if station.what == "cross" else "",
        aside=station.what in ("rotation", "bias"),
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _href(view: View, tower: Tower, station: Station, layer: int | None) -> str:
    """A link to the page of a part, opened at this layer; "" if there is none."""
    page = OPENS.get(station.what, "")
    if page not in session.page_names():
        return ""
    links, state = session.links(), view.state
    if station.what in ("self", "cross", "embedding"):
        kind = "cross" if station.what == "cross" else tower.role
        state = links.change(links.elsewhere(state), site=kind, layer=layer or 0, head=0)
    if station.what == "embedding":
        state = links.change(state, aside="split", key=None)
    if station.what == "add":
        state = links.change(state, part="residual")
    # The opening page is only reachable at the root, not by its name.
    path = "./" if page == session.opening_page() else page
    return f"{path}?{urlencode(links.write(state))}"
