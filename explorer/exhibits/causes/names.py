"""Names of writers (components that add to the residual stream) and of depths."""

from collections.abc import Sequence

import numpy as np

from explorer.analysis.causes.ledger import Writer
from explorer.analysis.causes.ranking import Components
from explorer.exhibits import View
from explorer.figures.theme import show
from explorer.numbers import number
from models.foreign.placing import HALVES

SMALL = 0.01
"""A residual of at most this share of the largest term is small."""


def whether_it_adds_up(view: View, rest: float, terms: np.ndarray) -> str:
    """Whether the terms sum to the total, or the residual relative to the largest term."""
    largest = float(np.abs(terms).max())
    said = {"rest": number(abs(rest)), "largest": number(largest)}
    closes = abs(rest) <= SMALL * largest
    return view.t("causes.adds_up" if closes else "causes.falls_short", **said)


def writer_name(view: View, writer: Writer) -> str:
    """The short name of a writer, for an axis: "cross-attn 3.5", "FFN 2"."""
    if writer.kind != "head":
        layer = 0 if writer.layer is None else writer.layer + 1
        return view.t(f"causes.writers.{writer.kind}", layer=layer)
    site = view.trace.site(writer.site)
    kind = view.t(f"causes.writers.{site.kind}", layer=site.layer + 1)
    if writer.head is None:
        return kind
    name = f"{kind}.{writer.head + 1}"
    if writer.key is None:
        return name
    tokens = view.trace.key_tokens(writer.site)
    return view.t("causes.writers.from", head=name, key=f"{writer.key} {show(tokens[writer.key])}")


def group_name(view: View, group: Components) -> str:
    """The name of a group of writers; the group of the smallest ones by its size."""
    if group.writer is None:
        return view.t("causes.writers.rest", count=len(group.members))
    return writer_name(view, group.writer)


def group_names(view: View, groups: Sequence[Components]) -> list[str]:
    """The names of all groups."""
    return [group_name(view, group) for group in groups]


def in_half_precision(view: View) -> bool:
    """Whether the model runs in half precision, with visible rounding."""
    return next(view.loaded.model.parameters()).dtype in HALVES
