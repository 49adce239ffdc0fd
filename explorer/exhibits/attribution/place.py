"""The head, the query and the detail of a page: what is open by default, controls and names."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from explorer.analysis.attribution.ledger import Components, Writer
from explorer.analysis.attribution.writers import Detail
from explorer.engine import cache
from explorer.exhibits import View, block as b
from explorer.exhibits.picking import pick_one, pick_token
from explorer.figures.theme import show
from explorer.numbers import number
from models.foreign.placing import HALVES
from models.hooks import AttentionSite

DETAILS = ("sublayers", "singles")
SMALL = 0.01
"""A residual of at most this share of the largest term is small."""


def opening(view: View) -> b.Blocks:
    """The text, and the user's changes to the model."""
    yield b.SentenceLine()
    yield b.Changes("attribution.reset")


def telling(view: View) -> View:
    """The view, with another head and query if the user has chosen none.

    The first self-attention layer reads only embeddings, so the most telling head of a later layer
    is opened instead. For a model with a single sequence the query is the masked word, else the
    last token, which has the most keys.
    """
    state, trace = view.state, view.trace
    chosen = state.layer is not None or state.head is not None
    if not chosen and view.site.kind == "self" and view.layer == 0:
        site, head = _later(view)
        view = replace(view, site=site, head=head)
    if state.row is None and not trace.src_tokens:
        last = int(trace.tgt_valid.sum()) - 1
        view = replace(view, row=next(iter(trace.masked), last))
    return view


def _later(view: View) -> tuple[AttentionSite, int]:
    """The most telling head after the first layer; the open head if there is none."""
    sites = view.sites_of(view.kind)[1:]
    if not sites:
        return view.site, view.head
    if not view.trace.patterns_kept:  # for a long text this would take a full pass
        return sites[-1], 0
    information = cache.measures(view.run, view.kind)["information"][1:]
    at, head = divmod(int(information.argmax()), view.site.n_heads)
    return sites[at], head


def detail_of(view: View) -> Detail:
    """Whole sublayers, or single heads."""
    return "heads" if view.one_of("picture", DETAILS) == "singles" else "sublayers"


def pick_detail(view: View) -> b.Pick:
    """The choice between both."""
    now = view.one_of("picture", DETAILS)
    more = b.More(said="attribution.details", form="menu", width=160)
    return pick_one(view, "attribution.by", DETAILS, now, "picture", **more)


def pick_row(view: View) -> b.Pick:
    """The control for the query."""
    tokens = view.trace.query_tokens(view.site.name)

    def change(row: int) -> b.Change:
        return b.choose(row=row, key=None, beside_key=None)

    key = "attribution.query"
    return pick_token(view, key, key, tokens, view.row, change=change, width=150)


def shortfall(view: View, rest: float, terms: np.ndarray) -> tuple[str, ...]:
    """That the terms do not sum to the total, unless the residual is small."""
    if abs(rest) <= SMALL * float(np.abs(terms).max()):
        return ()
    return (view.t("attribution.falls_short", rest=number(abs(rest))),)


def writer_name(view: View, writer: Writer) -> str:
    """The short name of a writer, for an axis: "cross-attn 3.5", "FFN 2"."""
    if writer.kind != "head":
        layer = 0 if writer.layer is None else writer.layer + 1
        return view.t("attribution.writers", writer.kind, layer=layer)
    site = view.trace.site(writer.site)
    kind = view.t("attribution.writers", site.kind, layer=site.layer + 1)
    if writer.head is None:
        return kind
    name = f"{kind}.{writer.head + 1}"
    if writer.key is None:
        return name
    tokens = view.trace.key_tokens(writer.site)
    return view.t(
        "attribution.writers.from", head=name, key=f"{writer.key} {show(tokens[writer.key])}"
    )


def group_name(view: View, group: Components) -> str:
    """The name of a group of writers; the group of the smallest ones by its size."""
    if group.writer is None:
        return view.t("attribution.writers.rest", count=len(group.members))
    return writer_name(view, group.writer)


def group_names(view: View, groups: Sequence[Components]) -> list[str]:
    """The names of all groups."""
    return [group_name(view, group) for group in groups]


def in_half_precision(view: View) -> bool:
    """Whether the model runs in half precision, with visible rounding."""
    return next(view.loaded.model.parameters()).dtype in HALVES
