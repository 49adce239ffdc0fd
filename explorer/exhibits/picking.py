"""Controls shared by several exhibits: the selected place, and a choice among options."""

from collections.abc import Sequence
from typing import Any

from explorer.exhibits.blocks import Box, Change, Pick, choose
from explorer.exhibits.view import View


def pick_place(view: View, page: str) -> tuple[Pick | Box, ...]:
    """Kind of attention, layer and head."""
    layers, heads = range(len(view.sites_of(view.kind))), range(view.site.n_heads)
    return (
        Pick(
            f"{page}.kind",
            view.t("place.kind"),
            view.kinds,
            view.kind,
            lambda kind: view.t(f"kinds.{kind}"),
            change=lambda kind: choose(elsewhere=True, site=kind),
        ),
        Box((_number(view, page, "layer", layers, view.layer),), 100),
        Box((_number(view, page, "head", heads, view.head),), 100),
    )


def _number(view: View, page: str, name: str, options: Sequence[int], now: int) -> Pick:
    """A menu of numbers, counted from 1; the other number does not change."""

    def change(number: int) -> Change:
        place: dict[str, Any] = {"layer": view.layer, "head": view.head, name: number}
        return choose(**place)

    label = view.t(f"place.{name}")
    return Pick(
        f"{page}.{name}", label, options, now, lambda at: str(at + 1), change=change, menu=True
    )


def pick_one(view: View, page: str, field: str, options: Sequence[str], now: str) -> Pick:
    """A choice among options, with texts at `PAGE.FIELD_OPTION` and the label at `PAGE.FIELD`."""

    def said(option: str) -> str:
        return view.t(f"{page}.{field}_{option}")

    return Pick(f"{page}.{field}", view.t(f"{page}.{field}"), options, now, said, field)
