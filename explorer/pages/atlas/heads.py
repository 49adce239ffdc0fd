"""The map of all heads, and the open head: its behaviour, its rank, its top sentences."""

from collections import Counter
from functools import partial

import numpy as np
import streamlit as st

from explorer.analysis.atlas.ablation import cost_sums
from explorer.analysis.atlas.here import one_by_one
from explorer.analysis.atlas.measures import Adding
from explorer.analysis.atlas.names import name_of
from explorer.analysis.atlas.store import RATE, Head, Text, numbers_of
from explorer.analysis.atlas.sums import LACKING, MEASURES, REACH
from explorer.exhibits.saying import in_a_row
from explorer.exports.archive import to_rows
from explorer.figures.atlas import profile, scatter
from explorer.numbers import fixed, minus, percent
from explorer.pages.atlas import cached
from explorer.pages.atlas.choices import AtlasChoices
from explorer.pages.atlas.sentences import sentences
from explorer.pages.atlas.shown import (
    Shown,
    about,
    does_it,
    kind_words,
    kinds_of,
    name_words,
    place,
    share_words,
    short,
    values,
)
from explorer.ui import controls, session
from explorer.ui.stage import hero
from explorer.ui.tables import table

FORMULA = (
    r"s_m = \frac{\left|\{\,i : \arg\max_j A_{ij} \in K_m(i)\,\}\right|}"
    r"{\left|\{\,i : K_m(i) \ne \varnothing\,\}\right|}, \qquad "
    r"H = \overline{-\sum_j A_{ij} \log_2 A_{ij}}",
    r"c = \overline{\log p(t_n \mid t_{<n}) - \log p_{z_h = 0}(t_n \mid t_{<n})} "
    r"\pm t_{n-1,\, 0.05 / h}\, \frac{\sigma}{\sqrt{n}}",
)


def map_of_heads(shown: Shown) -> None:
    """The map of all heads, and the open head below it."""
    view = shown.view
    across, up = axes_of(shown)
    kinds = Counter(name.kind for name in shown.atlas.names)
    with hero():
        controls.reading(
            "atlas",
            view.t(
                "atlas.reading",
                place=place(view, shown.head),
                name=name_words(view, shown.name),
                named=kinds.total() - kinds["mixed"] - kinds["spread"],
                spread=kinds["spread"],
                count=len(shown.atlas.heads),
            ),
        )
        _picture(shown, across, up)
    _axes(shown, across, up)
    st.caption(about(shown))
    _head(shown)
    sentences(shown)
    controls.small_print(
        view,
        "atlas",
        formula=FORMULA,
        code=_code(shown),
        numbers=lambda: _columns(shown),
    )


def axes_of(shown: Shown) -> tuple[str, str]:
    """The two axes of the map: the chosen ones, else sharpness and ablation cost."""
    chosen, offered = shown.view.choices(AtlasChoices), shown.axes
    across = chosen.across if chosen.across in offered else "entropy"
    usual = "cost" if "cost" in offered else "first"
    return across, chosen.up if chosen.up in offered else usual


def axis_title(shown: Shown, axis: str) -> str:
    """A measure, with its unit."""
    view = shown.view
    if axis in MEASURES:
        return view.t("atlas.axis_share", kind=kind_words(view, axis))
    return view.t(f"atlas.axes.{axis}")


def _picture(shown: Shown, across: str, up: str) -> None:
    view, atlas = shown.view, shown.atlas
    with_interval = up == "cost"
    kinds = kinds_of(atlas)
    figure = scatter.heads(
        values(atlas, across),
        values(atlas, up),
        kinds,
        [
            f"{place(view, head)}: {name_words(view, name)}"
            for head, name in zip(atlas.heads, atlas.names, strict=True)
        ],
        x_title=axis_title(shown, across),
        y_title=axis_title(shown, up),
        low=atlas.ends[0] if with_interval else None,
        high=atlas.ends[1] if with_interval else None,
        kind_words=[kind_words(view, kind) for kind in kinds],
        selected=shown.head.number,
        dark=view.dark,
    )
    turn = st.session_state.setdefault("atlas.map.turn", 0)
    key = f"atlas.map.{turn}"
    heads = atlas.heads
    controls.chart(
        figure,
        key,
        alt=view.t("atlas.map_alt"),
        on_select=lambda: _open_clicked(key, heads),
        selection_mode="points",
    )


def _open_clicked(key: str, heads: tuple[Head, ...]) -> None:
    """Open the head whose point was clicked; the browser's value is untrusted."""
    points = getattr(getattr(st.session_state.get(key), "selection", None), "points", None)
    if not isinstance(points, list) or not points or not isinstance(points[0], dict):
        return
    custom = points[0].get("customdata")
    number = custom[0] if isinstance(custom, list | tuple) and custom else None
    if isinstance(number, int | float) and number == int(number) and 0 <= number < len(heads):
        st.session_state["atlas.map.turn"] += 1
        open_head(heads[int(number)])


def open_head(head: Head) -> None:
    """Select another head, for all pages."""
    session.change_site(site=head.role)
    session.change(layer=head.layer, head=head.head, sentence=1)


def _axes(shown: Shown, across: str, up: str) -> None:
    view = shown.view
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for field, now in (("across", across), ("up", up)):
            with st.container(width=260):
                controls.pick(
                    view.t(f"atlas.{field}"),
                    shown.axes,
                    now,
                    f"atlas.{field}",
                    partial(_lay_out, field),
                    format_func=lambda axis: axis_title(shown, axis),
                )
        controls.pick_place(view, "atlas")


def _lay_out(field: str, axis: str) -> None:
    session.change(**{field: axis})


def _head(shown: Shown) -> None:
    """The open head: its profile, its numbers, the open sentence, the heads most like it."""
    view, atlas, head = shown.view, shown.atlas, shown.head
    st.subheader(place(view, head), anchor=False)
    with st.expander(view.t("atlas.profile")):
        left, right = st.columns(2, gap="large")
    with left:
        figure = profile.by_distance(
            atlas.by_offset[head.number], REACH, dark=view.dark, words=view.words("figures.profile")
        )
        controls.chart(figure, "atlas.profile", alt=view.t("atlas.profile"))
        st.caption(view.t(f"atlas.profile_{'cross' if head.role == 'cross' else 'self'}"))
    with right:
        _numbers(shown)
    _here(shown)
    _nearest(shown)


def _numbers(shown: Shown) -> None:
    """The head's measures as a table, and its ablation cost."""
    view, atlas, head = shown.view, shown.atlas, shown.head
    able = [name for name in MEASURES if name not in LACKING[head.role]]
    rows = []
    for name in able:
        at = MEASURES.index(name)
        if not atlas.rows[head.number, at]:
            continue
        share, weight = atlas.strengths[head.number, at], atlas.weight[head.number, at]
        chance = atlas.chance[head.number, at]
        said = kind_words(view, name)
        plain = name in ("spread", "alignment")
        rows.append(
            [
                f"**{said}**" if name == shown.name.kind else said,
                percent(float(share)),
                "–" if plain else percent(float(weight)),
                "–" if plain else percent(float(chance)),
            ]
        )
    table([view.t(f"atlas.column_{name}") for name in ("what", "top", "weight", "chance")], rows)
    st.markdown(
        view.t(
            "atlas.entropy",
            bits=fixed(float(atlas.entropy[head.number])),
            deviation=fixed(float(atlas.spread[head.number])),
        )
    )
    if np.isfinite(atlas.distance[head.number]):
        st.markdown(view.t("atlas.distance", tokens=fixed(float(atlas.distance[head.number]))))
    st.markdown(cost_words(shown))


def cost_words(shown: Shown) -> str:
    """The cost of ablating the head, with its interval, and whether it may be chance."""
    view, atlas, at = shown.view, shown.atlas, shown.head.number
    if not np.isfinite(atlas.cost[at]):
        return view.t("atlas.cost_unknown")
    low, high = (float(ends[at]) for ends in atlas.ends)
    if not np.isfinite(low):
        return view.t("atlas.cost_one", cost=nats(float(atlas.cost[at])))
    sign = "some" if low > 0 else "less" if high < 0 else "none"
    said = view.t(
        f"atlas.cost_{sign}",
        cost=nats(float(atlas.cost[at])),
        low=nats(low),
        high=nats(high),
        count=atlas.cost_sentences,
    )
    heads = int(np.isfinite(atlas.low).sum())
    return in_a_row([said, view.t("atlas.cost_sure", heads=heads, rate=percent(RATE))])


def nats(cost: float) -> str:
    """Format a cost in nats, usually a few hundredths."""
    return minus(f"{cost:.3f}")


def _here(shown: Shown) -> None:
    """Whether the head shows its main behaviour in the open sentence."""
    view, name = shown.view, shown.name
    trace = view.trace
    text = Text(trace.text, trace.output if "src" in view.loaded.model.reads else "")
    found = cached.one_by_one(shown.which, (text,))
    share = float(found.strengths[0, shown.head.number, MEASURES.index(name.nearest)])
    if not found.tokens[0] or not np.isfinite(share):
        said = view.t("atlas.here_none", kind=kind_words(view, name.nearest))
    else:
        key = (
            "mixed" if name.kind == "mixed" else ("does" if does_it(name.nearest, share) else "not")
        )
        said = view.t(
            f"atlas.here_{key}",
            here=share_words(view, name.nearest, percent(share)),
            corpus=percent(name.share),
        )
    controls.reading("atlas-here", said)


def _nearest(shown: Shown) -> None:
    """The heads of the same kind of attention with the most similar patterns."""
    view, atlas, head = shown.view, shown.atlas, shown.head
    near = [
        (int(n), a) for n, a in zip(atlas.near[head.number], atlas.alike[head.number], strict=True)
    ]
    near = [(number, like) for number, like in near if number >= 0]
    if not near:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(view.t("atlas.near"))
        for number, like in near:
            other = atlas.heads[number]
            st.button(
                f"{short(other)} · {percent(float(like))} · "
                f"{kind_words(view, atlas.names[number].kind)}",
                key=f"atlas.near.{number}",
                on_click=open_head,
                args=(other,),
            )


def _code(shown: Shown) -> list[object]:
    """The code that computed the atlas; also the measuring code if the page measured it."""
    if shown.which.texts and np.isfinite(shown.atlas.cost).any():
        return [Adding.add, numbers_of, name_of, cost_sums, one_by_one]
    return [Adding.add, numbers_of, name_of, one_by_one]


def heads_table(shown: Shown) -> tuple[list[str], list[list[object]]]:
    """Every number of every head: the column names, and one row per head."""
    view, atlas = shown.view, shown.atlas
    able = [name for name in MEASURES if np.isfinite(values(atlas, name)).any()]
    columns = [
        view.t("place.kind"),
        view.t("place.layer"),
        view.t("place.head"),
        view.t("atlas.column_kind"),
        view.t("atlas.column_share"),
        *(view.t(f"atlas.axes.{axis}") for axis in ("entropy", "deviation", "distance", "cost")),
        view.t("atlas.column_low"),
        view.t("atlas.column_high"),
        *(view.t("atlas.axis_share", kind=kind_words(view, name)) for name in able),
    ]
    rows: list[list[object]] = []
    low, high = atlas.ends
    for head, name in zip(atlas.heads, atlas.names, strict=True):
        at = head.number
        numbers = [atlas.entropy[at], atlas.spread[at], atlas.distance[at], atlas.cost[at]]
        numbers += [low[at], high[at], *(values(atlas, each)[at] for each in able)]
        rows.append(
            [
                view.t(f"kinds.{head.role}"),
                head.layer + 1,
                head.head + 1,
                kind_words(view, name.kind),
                f"{100 * name.share:.2f}",
                *("" if np.isnan(n) else f"{n:.4f}".rstrip("0").rstrip(".") for n in numbers),
            ]
        )
    return columns, rows


def heads_csv(shown: Shown) -> bytes:
    """All heads as a CSV that spreadsheets open."""
    return to_rows(*heads_table(shown)).encode("utf-8-sig")


def sentences_csv(shown: Shown) -> bytes:
    """The sentences of every head as a CSV, with credits."""
    view, atlas = shown.view, shown.atlas
    columns = [view.t(f"place.{name}") for name in ("kind", "layer", "head")]
    columns += [view.t(f"atlas.column_{name}") for name in ("kind", "source", "target", "credit")]
    rows = [
        [
            view.t(f"kinds.{head.role}"),
            head.layer + 1,
            head.head + 1,
            kind_words(view, atlas.names[head.number].nearest),
            text.source,
            text.target,
            text.credit,
        ]
        for head in atlas.heads
        for text in (atlas.texts[number] for number in atlas.best[head.number])
    ]
    return to_rows(columns, rows).encode("utf-8-sig")


def _columns(shown: Shown) -> dict[str, list[object]]:
    columns, rows = heads_table(shown)
    return {name: [row[at] for row in rows] for at, name in enumerate(columns)}
