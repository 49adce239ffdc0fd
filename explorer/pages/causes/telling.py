"""What is looked at first: a head that others have written to, and a row with something to say."""

from dataclasses import replace

from explorer.engine import cache
from explorer.exhibits.view import View
from models.hooks import AttentionSite


def telling(view: View) -> View:
    """The view, with another head and row where the visitor has chosen none.

    In the first layer of self-attention nothing was written yet but what was embedded: there the
    most telling head of the layers after it is opened. A model of one text is asked about the word
    to be filled in, else about its last token, whose row has most to look at.
    """
    state, trace = view.state, view.trace
    chosen = state.layer is not None or state.head is not None
    if not chosen and view.site.kind == "self" and view.layer == 0:
        site, head = _later(view)
        view = replace(view, site=site, head=head)
    if state.row is None and not trace.src_tokens:
        view = replace(view, row=int(trace.tgt_valid.sum()) - 1)
        if trace.predicts == "same" and trace.marks.mask in trace.tgt_tokens:
            view = replace(view, row=trace.tgt_tokens.index(trace.marks.mask))
    return view


def _later(view: View) -> tuple[AttentionSite, int]:
    """The most telling head behind the first layer; the head that is open where there is none."""
    sites = view.sites_of(view.kind)[1:]
    if not sites:
        return view.site, view.head
    if not view.trace.patterns_kept:  # so long a text takes a pass through all layers to tell
        return sites[-1], 0
    information = cache.measures(view.run, view.kind)["information"][1:]
    at, head = divmod(int(information.argmax()), view.site.n_heads)
    return sites[at], head
