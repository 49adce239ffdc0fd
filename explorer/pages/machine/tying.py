"""Weight tying: one matrix can serve both ends, since a logit is a dot product with an
embedding."""

import streamlit as st

from explorer.analysis.machine.tying import N_NEAR, Tying, tying
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.numbers import fixed, number, percent
from explorer.ui import controls
from explorer.ui.tables import table


def one_matrix(view: View) -> None:
    """Draw the aside."""
    if view.trace.predicts is None:
        st.info(view.t("swaps.no_logits"), icon=":material/lightbulb:")
        return
    st.markdown(view.t("tying.lead"))
    tokens = view.trace.tgt_str_tokens
    at = controls.pick_token(view, "spot", view.t("tying.spot"), tokens, "machine.spot")
    found = tying(view.loaded, view.trace, at)
    head = (
        view.t("tying.word"),
        view.t("tying.product" if _goes_on(view, found) else "tying.logit"),
        view.t("tying.h"),
        view.t("tying.length"),
        view.t("tying.cosine"),
    )
    rows = [
        (escape(e.word), fixed(e.logit), fixed(found.h), fixed(e.length), fixed(e.cosine, 3))
        for e in found.best
    ]
    table(head, rows)
    _reading(view, found)
    controls.small_print(
        view,
        "tying",
        explained="tying.formula",
        formula=(
            r"\ell_w = h \cdot W_U[w] = \lVert h\rVert\,\lVert W_U[w]\rVert\,\cos(h, W_U[w]), "
            r"\qquad W_U = E",
            r"h \cdot (E[w] - \bar{E}) = \ell_w - h \cdot \bar{E}",
        ),
        code=(view.loaded.model.read, tying),
        numbers=lambda: {
            view.t("tying.word"): [each.word for each in found.best],
            view.t("tying.logit"): [each.logit for each in found.best],
            view.t("tying.length"): [each.length for each in found.best],
            view.t("tying.cosine"): [each.cosine for each in found.best],
        },
    )


def _goes_on(view: View, found: Tying) -> list[str]:
    """The model's further steps from the product to the logit."""
    cap = view.loaded.config.logit_cap
    biased = [view.t("tying.then_biased")] if found.biased else []
    return biased + ([] if cap is None else [view.t("tying.then_capped", cap=f"{cap:g}")])


def _reading(view: View, found: Tying) -> None:
    config = view.loaded.config
    goes_on = _goes_on(view, found)
    words = view.t("tying.then", then=view.t("heads.and").join(goes_on)) if goes_on else ""
    words += view.t(
        "tying.reading",
        error=number(found.error),
        word=controls.quoted(view, found.best[0].word),
        near=", ".join(map(escape, found.near)),
        count=N_NEAR,
        rank=percent(found.near_rank),
    )
    said = view.t(
        "tying.tied" if found.tied else "tying.untied",
        saved=f"{found.saved:,}",
        streams=view.t("tying.streams") if config.reads_source else "",
        same=fixed(found.same),
        other=fixed(found.other),
    )
    controls.reading("tying", f"{words} {said}")
