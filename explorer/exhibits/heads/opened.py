"""All heads of a run, and those that are open: converts between the state and the view's
addresses."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.heads.aggregates import Aggregate
from explorer.analysis.heads.measures import measure_names
from explorer.analysis.heads.words import Words, cells_by_word, words_of
from explorer.components.heads_payload import Cells, HeadsSelection
from explorer.engine import cache
from explorer.exhibits import View
from explorer.exhibits.heads.choices import NOTHING, HeadOrAggregate, HeadsChoices
from explorer.exhibits.links import FREE
from explorer.exhibits.saying import head_name
from explorer.once import once
from explorer.runs.rerun import written_tokens
from models.hooks import AttentionSite


@dataclass(frozen=True, eq=False)
class EnlargedPattern:
    """One head or aggregate shown large: its pattern and mask [query, key], and its name.

    `site` and `head` are None for an aggregate.
    """

    name: str
    pattern: NDArray[np.float32]
    mask: NDArray[np.bool_]
    site: AttentionSite | None = None
    head: int | None = None
    aggregate: Aggregate | None = None


@dataclass(frozen=True, eq=False)
class Opened:
    """The heads of the view's kind, the aggregates after them, and which of these are shown.

    `differs` [layer, head] is the difference from the same head of the compared model, in bits;
    None if there is no such model, or if its heads do not correspond by index.
    """

    view: View
    differs: NDArray[np.float64] | None = None

    @once
    def sites(self) -> tuple[AttentionSite, ...]:
        """The attention sites, one per layer."""
        return self.view.sites_of(self.view.kind)

    @once
    def measure_names(self) -> tuple[str, ...]:
        """The available measures; each is computed only when chosen."""
        offered: list[str] = [*measure_names(self.view.trace, self.view.kind)]
        if written_tokens(self.view.trace):
            offered.append("needed")
        if self.differs is not None:
            offered.append("differs")
        return tuple(offered)

    @property
    def measure(self) -> str | None:
        """The chosen measure; None if there is none or this kind does not have it."""
        chosen = self.view.choices(HeadsChoices).measure
        return chosen if chosen in self.measure_names else None

    @once
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The aggregates: means and rollout."""
        return cache.aggregates(self.view.run, self.view.kind)

    @once
    def words(self) -> tuple[Words, Words] | None:
        """The words on the query and key axes if the picture is by word; else None."""
        if not self.view.choices(HeadsChoices).words:
            return None
        trace, name = self.view.trace, self.view.site.name
        return words_of(trace.query_tokens(name)), words_of(trace.key_tokens(name))

    def cells(self, shown: EnlargedPattern) -> Cells:
        """The weights and the mask of a shown head, by word if the picture is by word."""
        cells = shown.pattern, shown.mask
        return cells if self.words is None else cells_by_word(cells, self.words)

    @once
    def selection(self) -> HeadsSelection:
        """The selection for the linked view, without heads that this model does not have."""
        state, choices = self.view.state, self.view.choices(HeadsChoices)
        opened: HeadOrAggregate = choices.instead or (self.view.layer, self.view.head)
        pinned = tuple(filter(None, map(self.address, choices.pins)))
        n_key = len(self.view.trace.key_tokens(self.view.site.name))
        has_cell = state.row not in (None, FREE) and state.key is not None and state.key < n_key
        return HeadsSelection(
            self.address(opened) if opened != NOTHING else None,
            pinned,
            None if state.row == FREE else self.view.row,
            state.key if has_cell else None,
            choices.scale,
            not choices.own_range,
            choices.by_measure,
        )

    @property
    def shown(self) -> tuple[EnlargedPattern, ...]:
        """The pinned heads and aggregates, then the open one."""
        return tuple(map(self.at, self.selection.shown))

    @once
    def current(self) -> EnlargedPattern | None:
        """The one described in the reading: the open one, else the last pinned one."""
        selection = self.selection
        if selection.opened is not None:
            return self.at(selection.opened)
        return self.at(selection.pinned[-1]) if selection.pinned else None

    def at(self, address: tuple[int, int]) -> EnlargedPattern:
        """The head or aggregate at an address that exists."""
        layer, head = address
        if layer == len(self.sites):
            aggregate = self.aggregates[head]
            return EnlargedPattern(
                self.aggregate_name(aggregate),
                aggregate.pattern,
                aggregate.mask,
                aggregate=aggregate,
            )
        site, trace = self.sites[layer], self.view.trace
        return EnlargedPattern(
            head_name(self.view, address),
            trace.pattern(site.name)[head],
            trace.mask(site.name)[head],
            site,
            head,
        )

    def aggregate_name(self, aggregate: Aggregate) -> str:
        """An aggregate's short name, in the user's language."""
        if aggregate.layer is not None:
            return self.view.t("heads.mean", layer=aggregate.layer + 1)
        return self.view.t("heads.rollout")

    def address(self, place: HeadOrAggregate) -> tuple[int, int] | None:
        """The view's address of a head or aggregate; None if this model and sentence do not have
        it."""
        if isinstance(place, str):
            names = [aggregate.name for aggregate in self.aggregates]
            return (len(self.sites), names.index(place)) if place in names else None
        layer, head = place
        return place if layer < len(self.sites) and head < self.sites[layer].n_heads else None

    def chosen(self, chosen: HeadsSelection) -> dict[str, Any]:
        """The choices of a selection in the view, by their names."""
        place = NOTHING if chosen.opened is None else self._place(chosen.opened)
        opened: dict[str, Any] = (
            {"instead": place}
            if isinstance(place, str)
            else {"instead": "", "layer": place[0], "head": place[1]}
        )
        return {
            **opened,
            "pins": tuple(self._place(address) for address in chosen.pinned),
            "row": FREE if chosen.query is None else chosen.query,
            "key": chosen.key,
            "scale": chosen.scale,
            "own_range": not chosen.shared,
            "by_measure": chosen.by_measure,
        }

    def _place(self, address: tuple[int, int]) -> HeadOrAggregate:
        layer, head = address
        return self.aggregates[head].name if layer == len(self.sites) else address
