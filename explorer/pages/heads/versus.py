"""Differences between two models for one sentence: heads, the open head, predictions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from explorer.analysis.heads.aligned import Pieces, align, gathered
from explorer.analysis.heads.versus import (
    Expectation,
    divergence,
    expectations,
    incomparable,
    input_role,
    mean_divergence,
    patterns,
)
from explorer.analysis.heads.versus import closest as closest_head
from explorer.exhibits.escape import escape
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.saying import model_title
from explorer.figures import heatmap
from explorer.numbers import fixed, percent
from explorer.pages.heads.pair import ViewPair, swap
from explorer.ui import controls, session
from explorer.ui.tables import table

MOST_HEADS = 5
"""Number of heads listed as differing most."""
MOST_ROWS = 24
"""Most predictions shown in full; beyond that, only those that differ."""
LEAST = 5e-4
"""Smallest probability of a second or third prediction that is shown."""
FORMULA = (
    r"\mathrm{JS}(p, q) = H\!\left(\tfrac{p + q}{2}\right) - \tfrac12\big(H(p) + H(q)\big), "
    r"\qquad H(p) = -\sum_j p_j \log_2 p_j",
    r"d_{\ell h} = \frac1n \sum_{i = 1}^{n} \mathrm{JS}\big(A^{(1)}_{\ell h i},\, "
    r"A^{(2)}_{\ell h i}\big)",
)


def verdict(pair: ViewPair) -> None:
    """The differences in two sentences above the pictures, and the heads that differ most."""
    view = pair.view
    if pair.compared is None:
        _no_counterpart(pair)
    elif not pair.compared.comparable:
        st.info(view.t("versus.nothing_shared"), icon=":material/info:")
    else:
        _heads(pair)
    found = expected(pair)
    if found:
        controls.reading("versus-predictions", _first_difference(pair, found))


def compared(choice: Opened, pair: ViewPair) -> None:
    """The part of the page about both models, below their pictures."""
    view = pair.view
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(view.t("versus.title"), anchor=False)
        st.button(
            view.t("versus.swap"),
            key="versus.swap",
            icon=":material/swap_horiz:",
            on_click=swap,
            args=(pair,),
        )
    _other_text(pair)
    code: list[object] = [align]
    if pair.compared is not None and pair.compared.comparable:
        if pair.compared.by_number:
            st.caption(view.t("versus.measure"))
        _pieces(pair)
        _open_head(choice, pair)
        code += [gathered, divergence]
        code += [mean_divergence] if pair.compared.by_number else [closest_head]
    found = expected(pair)
    _predictions(pair, found)
    if found:
        code.append(expectations)
    if pair.compared is not None:
        controls.small_print(
            view, "versus", formula=FORMULA, code=code, numbers=lambda: _numbers(pair, found)
        )


def expected(pair: ViewPair) -> tuple[Expectation, ...]:
    """The predictions of both, piece by piece."""
    one, other = pair.view, pair.other
    return expectations(one.trace, other.trace, one.loaded.str_tokens, other.loaded.str_tokens)


def _names(pair: ViewPair) -> dict[str, object]:
    return {
        "one": escape(model_title(pair.view, pair.view.loaded.name)),
        "other": escape(model_title(pair.view, pair.other.loaded.name)),
    }


def _other_text(pair: ViewPair) -> None:
    """A note that the other model reads this one's translation."""
    given = pair.other.target
    if given and given != pair.view.target:
        st.caption(pair.view.t("versus.same_text", **_names(pair)))


def _no_counterpart(pair: ViewPair) -> None:
    """A note that the other model lacks this kind of attention, with a kind that both have."""
    view = pair.view
    role = input_role(view.trace)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(
            view.t("versus.no_counterpart", kind=view.t(f"kinds.{view.kind}"), **_names(pair)),
            icon=":material/info:",
        )
        st.button(
            view.t("versus.input_kind", kind=view.t(f"kinds.{role}")),
            key="versus.input_kind",
            on_click=lambda: session.change_site(site=role),
        )


def _pieces(pair: ViewPair) -> None:
    """A note on how two tokenizations were made comparable."""
    found = pair.compared
    assert found is not None
    if found.queries.whole and found.keys.whole:
        return
    view, pieces = pair.view, found.keys
    st.caption(
        view.t(
            "versus.pieces",
            n_one=pieces.n_one,
            n_other=pieces.n_other,
            n=len(pieces.labels),
            **_names(pair),
        )
    )


def _heads(pair: ViewPair) -> None:
    """The heads that differ most, as buttons."""
    view, found = pair.view, pair.compared
    assert found is not None
    values = _names(pair)
    if found.difference is None:
        (layers, heads), (their_layers, their_heads) = found.shapes
        values |= {"layers": layers, "heads": heads}
        values |= {"their_layers": their_layers, "their_heads": their_heads}
        st.markdown(view.t("versus.shapes_differ", **values))
        return
    ranked = found.ranked()
    if not ranked:
        st.info(view.t("versus.nothing_shared"), icon=":material/info:")
        return
    most, least = ranked[0], ranked[-1]
    largest = float(found.difference[most])
    if largest < 5e-4:
        controls.reading("versus", view.t("versus.same_heads", count=len(ranked), **values))
        return
    controls.reading(
        "versus",
        view.t(
            "versus.reading",
            layer=most[0] + 1,
            head=most[1] + 1,
            bits=fixed(largest),
            mean=fixed(float(np.nanmean(found.difference))),
            count=len(ranked),
            least_layer=least[0] + 1,
            least_head=least[1] + 1,
            least=fixed(float(found.difference[least])),
        ),
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(view.t("versus.most"))
        for layer, head in ranked[:MOST_HEADS]:
            is_open = (layer, head) == (view.layer, view.head)
            st.button(
                f"L{layer + 1}·H{head + 1} · {fixed(float(found.difference[layer, head]))}",
                key=f"versus.open.{layer}.{head}",
                type="primary" if is_open else "secondary",
                on_click=session.change,
                kwargs={"layer": layer, "head": head, "instead": ""},
            )


@dataclass(frozen=True, eq=False)
class OpenHeads:
    """The open head of each model over common pieces: weights [query piece, key piece]."""

    mine: tuple[int, int]  # layer, head
    theirs: tuple[int, int]
    one: NDArray[np.float32]
    other: NDArray[np.float32]
    keys: tuple[str, ...]

    @property
    def places(self) -> dict[str, int]:
        """The fields for texts: both heads, counted from 1."""
        mine = {"layer": self.mine[0] + 1, "head": self.mine[1] + 1}
        return mine | {"their_layer": self.theirs[0] + 1, "their_head": self.theirs[1] + 1}


def open_heads(choice: Opened, pair: ViewPair) -> OpenHeads | None:
    """The open heads of both models; None if none is open or comparable."""
    view, found, shown = pair.view, pair.compared, choice.current
    if found is None or not found.comparable:
        return None
    if shown is None or shown.site is None or shown.head is None:
        return None
    mine = shown.site.layer, shown.head
    theirs = mine if found.by_number else (pair.other.layer, pair.other.head)
    queries, keyed = found.queries, found.keys
    one = gathered(patterns(view.trace, found.role)[mine], queries.one, keyed.one)
    other = gathered(
        patterns(pair.other.trace, found.other_role)[theirs], queries.other, keyed.other
    )
    keys = [*found.keys.labels, view.t("versus.rest")]
    if found.keys.whole:
        one, other, keys = one[:, :-1], other[:, :-1], keys[:-1]
    weights = one.astype(np.float32), other.astype(np.float32)
    return OpenHeads(mine, theirs, *weights, tuple(keys))


def _open_head(choice: Opened, pair: ViewPair) -> None:
    """The open head of each model, the difference of the two, and the most similar head."""
    view, found, opened = pair.view, pair.compared, open_heads(choice, pair)
    assert found is not None
    if opened is None:
        st.caption(view.t("versus.closed"))
        return
    names = _names(pair)
    caption = view.t("versus.difference", **opened.places, **names)
    st.caption(caption)
    titles = controls.place_titles(view)
    figure = heatmap.difference(
        opened.one,
        opened.other,
        found.queries.labels,
        opened.keys,
        mask_before=opened.one > 0,
        mask_after=opened.other > 0,
        selected=_piece(found.queries, view.row),
        dark=view.dark,
        words={
            **view.words("figures.heatmap"),
            "before": model_title(view, view.loaded.name),
            "after": model_title(view, pair.other.loaded.name),
        },
        **titles,
    )
    controls.chart(figure, "heads.versus", alt=caption)
    nearest = pair.closest(*opened.mine)
    if nearest is None:
        return
    (layer, head), bits = nearest
    same = found.by_number and (layer, head) == opened.mine
    st.markdown(
        view.t(
            "versus.closest_same" if same else "versus.closest",
            layer=opened.mine[0] + 1,
            head=opened.mine[1] + 1,
            near_layer=layer + 1,
            near_head=head + 1,
            bits=fixed(bits),
            **names,
        )
    )


def _piece(pieces: Pieces, token: int) -> int | None:
    """The piece that contains this token of the first model."""
    return next((at for at, tokens in enumerate(pieces.one) if token in tokens), None)


def _predictions(pair: ViewPair, found: Sequence[Expectation]) -> None:
    """The predictions of both, row by row."""
    view, names = pair.view, _names(pair)
    st.subheader(view.t("versus.predictions"), anchor=False)
    if not found:
        why = incomparable(view.trace, pair.other.trace)
        st.caption(view.t(f"versus.{why or 'nothing_read'}", **names))
        return
    differing = [each for each in found if not each.same]
    shown = found if len(found) <= MOST_ROWS else (differing or list(found))[:MOST_ROWS]
    if len(shown) < len(found):
        st.caption(view.t("versus.only_differing", count=len(shown), total=len(found)))
    after = "versus.at" if view.trace.config.predicts == "same" else "versus.after"
    table(
        ["", view.t(after), str(names["one"]), str(names["other"])],
        [
            [
                "" if each.same else ":orange[:material/difference:]",
                escape(each.piece),
                _several(each.one, bold=not each.same),
                _several(each.other, bold=not each.same),
            ]
            for each in shown
        ],
        "llll",
    )


def _first_difference(pair: ViewPair, found: Sequence[Expectation]) -> str:
    """How many predictions differ, and the first of them, as Markdown."""
    view, names = pair.view, _names(pair)
    differing = [each for each in found if not each.same]
    if not differing:
        return view.t("versus.same_predictions", total=len(found), **names)
    first = differing[0]
    return view.t(
        "versus.first_difference",
        count=len(differing),
        total=len(found),
        piece=controls.quoted(view, first.piece),
        mine=_expectation(pair, first.one[0]),
        theirs=_expectation(pair, first.other[0]),
        **names,
    )


def _expectation(pair: ViewPair, top: tuple[str, float]) -> str:
    token = controls.quoted(pair.view, top[0])
    return pair.view.t("versus.expected", token=token, chance=percent(top[1]))


def _several(top: Sequence[tuple[str, float]], bold: bool) -> str:
    told = [each for each in top if each is top[0] or each[1] >= LEAST]
    words = [f"{escape(token)} {percent(chance)}" for token, chance in told]
    return " · ".join([f"**{words[0]}**" if bold else words[0], *words[1:]])


def _numbers(pair: ViewPair, found: Sequence[Expectation]) -> dict[str, list[object]]:
    """The table: the difference of every pair of heads, else the predictions, else the pieces."""
    view, compared = pair.view, pair.compared
    if compared is not None and compared.difference is not None:
        ranked = compared.ranked()
        return {
            view.t("place.layer"): [layer + 1 for layer, _ in ranked],
            view.t("place.head"): [head + 1 for _, head in ranked],
            view.t("heads.measures.differs"): [
                round(float(compared.difference[place]), 4) for place in ranked
            ],
        }
    one, other = (model_title(view, each.loaded.name) for each in (view, pair.other))
    if found or compared is None:
        return {
            view.t("versus.after"): [each.piece for each in found],
            one: [" · ".join(token for token, _ in each.one) for each in found],
            other: [" · ".join(token for token, _ in each.other) for each in found],
        }
    keys = compared.keys
    return {
        view.t("versus.piece"): list(keys.labels),
        one: [" ".join(map(str, tokens)) for tokens in keys.one],
        other: [" ".join(map(str, tokens)) for tokens in keys.other],
    }
