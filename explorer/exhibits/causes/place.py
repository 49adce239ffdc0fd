"""The head, the query and the detail of a page: what is open by default, and controls."""

from dataclasses import replace

from explorer.analysis.causes.writers import Detail
from explorer.engine import cache
from explorer.exhibits import View, block as b
from explorer.exhibits.picking import pick_one, pick_token
from models.hooks import AttentionSite

DETAILS = ("sublayers", "singles")


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


def site_name(view: View) -> str:
    """The name of the open site."""
    return view.site.name


def detail_of(view: View) -> Detail:
    """Whole sublayers, or single heads."""
    return "heads" if view.one_of("picture", DETAILS) == "singles" else "sublayers"


def pick_detail(view: View) -> b.Pick:
    """The choice between both."""
    now = view.one_of("picture", DETAILS)
    return pick_one(view, "causes.by", DETAILS, now, "picture")


def pick_row(view: View) -> b.Pick:
    """The control for the query."""
    tokens = view.trace.query_tokens(view.site.name)

    def change(row: int) -> b.Change:
        return b.choose(row=row, key=None, beside_key=None)

    key = "causes.query"
    return pick_token(view, key, key, tokens, view.row, change=change, width=150)
