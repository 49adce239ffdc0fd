"""The logit lens: predictions after each sublayer, over the text or over decoding steps."""

from dataclasses import dataclass

import numpy as np
import streamlit as st

from explorer.analysis.causes.lens import Depth, Lens, depths_of, film, lens
from explorer.analysis.causes.writers import points
from explorer.engine import jobs
from explorer.exhibits.view import View
from explorer.figures.causes.depths import depths
from explorer.figures.curves import lines
from explorer.numbers import digits, fixed, percent
from explorer.pages.causes import cached
from explorer.pages.causes.choices import CausesChoices
from explorer.pages.causes.waiting import waited
from explorer.pages.causes.words import position_of, token_name
from explorer.pages.decoding.cached import generate
from explorer.problems import InputProblem
from explorer.runs.generation import Generation, StepsDone
from explorer.ui import controls, running, session
from explorer.ui.parts import pick_one
from explorer.ui.problem import show_problem
from explorer.ui.tables import table
from models.strategies import Greedy

JOB = "causes.film"
N_FILM = 24
"""Tokens generated for the lens over decoding steps."""
AT_ONCE = 2_000_000_000
"""Most multiplications by the unembedding, over all depths, without a progress bar."""


@dataclass(frozen=True, eq=False)
class _Shown:
    """A lens with the labels of its positions, and the decoding that it follows."""

    found: Lens
    columns: tuple[str, ...]
    place: int


def through_the_lens(view: View) -> None:
    """Draw this part of the page."""
    if view.trace.predicts is None:
        st.info(view.t("causes.no_logits"), icon=":material/lightbulb:")
        return
    made = view.choices(CausesChoices)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        shown = pick_one(
            view,
            "picture",
            view.t("causes.colour"),
            ("chance", "ranked", "distance"),
            "causes.colour",
            lambda name: view.t(f"causes.colour_{name}"),
        )
        st.session_state["causes.filmed"] = made.filmed
        st.toggle(
            view.t("causes.filmed"),
            key="causes.filmed",
            help=view.t("causes.filmed_help"),
            on_change=lambda: session.change(filmed=st.session_state["causes.filmed"]),
        )
    here = _filmed(view) if made.filmed else _read(view)
    if here is None:
        return
    found = here.found
    with controls.reading_first():
        _grid(view, here, shown)
        controls.reading("lens", _reading(view, here))
    st.markdown(_misleads(view, found))
    if view.trace.src_tokens:
        st.caption(view.t("causes.lens_source"))
    _one_place(view, here)
    _by_depth(view, found)
    controls.small_print(
        view,
        "causes",
        explained="causes.lens_formula",
        formula=(
            r"p_d = \mathrm{softmax}\big(W_U\,\mathrm{Norm}(x_d)\big)",
            r"\mathrm{KL}(p \,\Vert\, p_d) = \sum_w p_w \ln \frac{p_w}{p_{d,w}}",
        ),
        code=(film if made.filmed else lens, points, depths_of),
        numbers=lambda: _numbers(view, found),
    )


def _read(view: View) -> _Shown | None:
    """The lens at every position of the text; None while computing."""
    n_real, config = int(view.trace.tgt_valid.sum()), view.loaded.config
    n_depths = 1 + config.n_layers * (3 if config.reads_source else 2)
    products = n_depths * n_real * config.vocab_size * config.d_model
    found = waited(view, "lens", cached.lens, at_once=products <= AT_ONCE)
    if found is None:
        return None
    columns = view.trace.tgt_str_tokens[:n_real]
    place, field = position_of(view)
    _pick_place(view, columns, place, field)
    return _Shown(found, columns, place)


def _filmed(view: View) -> _Shown | None:
    """The lens at every step of greedy decoding; None while computing, or if there is no
    decoding."""
    edits = view.trace.edits
    asked = (view.loaded.name, view.text, Greedy(), edits, N_FILM)

    def work(tell: StepsDone) -> tuple[Generation, Lens]:
        made = generate(*asked, progress=tell)
        return made, cached.film(made, progress=jobs.whole(tell))

    try:
        both = running.awaited(JOB, asked, work, view.t("causes.film_working"), view.lang)
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return None
    if both is None:
        return None
    made, found = both
    columns = tuple(step.chosen_str for step in made.steps)
    step = min(view.step, len(columns) - 1)
    if len(columns) > 1:
        st.session_state["causes.step"] = step + 1
        st.slider(
            view.t("causes.step"),
            1,
            len(columns),
            key="causes.step",
            on_change=lambda: session.change(step=st.session_state["causes.step"] - 1),
        )
    return _Shown(found, columns, step)


def _pick_place(view: View, columns: tuple[str, ...], now: int, field: str) -> None:
    with st.container(width=220):
        controls.pick(
            view.t("causes.place"),
            range(len(columns)),
            now,
            "causes.place",
            lambda place: session.change(**{field: place}),
            format_func=lambda place: f"{place} {columns[place]}",
        )


def depth_name(view: View, depth: Depth) -> str:
    """The short name of a depth, for the axis."""
    layer = 0 if depth.layer is None else depth.layer + 1
    what = "self" if depth.what == "attn" else depth.what
    return view.t(f"causes.depths.{what}", layer=layer)


def _grid(view: View, here: _Shown, kind: str) -> None:
    found = here.found
    first = found.tokens[..., 0].tolist()
    said = [[token_name(view.loaded, token) for token in row] for row in first]
    values = {
        "chance": found.probs[..., 0].astype(np.float64),
        "ranked": found.ranks.astype(np.float64),
        "distance": found.kl,
    }[kind]
    filmed = view.choices(CausesChoices).filmed
    figure = depths(
        said,
        values,
        [depth_name(view, depth) for depth in found.depths],
        here.columns,
        kind=kind,
        title=view.t(f"causes.colour_{kind}"),
        column_title=view.t("causes.steps" if filmed else "causes.read_at"),
        selected=here.place,
        doubtful=found.misleads,
        n_shown=here.place + 1 if filmed else len(here.columns),
        dark=view.dark,
        words=view.words("figures.causes"),
    )
    controls.chart(figure, "causes.lens", alt=view.t("causes.lens_alt"))


def _reading(view: View, here: _Shown) -> str:
    found, place = here.found, here.place
    answer = controls.quoted(view, token_name(view.loaded, int(found.answer[place])))
    settled = found.settled(place)
    filmed = view.choices(CausesChoices).filmed
    kind = "film" if filmed else "lens"
    token = controls.quoted_at(view, here.columns, place)
    return view.t(
        f"causes.read_{kind}_first" if settled == 0 else f"causes.read_{kind}",
        **({"step": place + 1} if filmed else {"token": token}),
        answer=answer,
        chance=percent(float(found.shares[-1, place])),
        depth=depth_name(view, found.depths[settled]),
        rank=f"{int(found.ranks[0, place]):,}",
    )


def _misleads(view: View, found: Lens) -> str:
    """The depths at which the lens misleads, with numbers."""
    misleads = found.misleads
    numbers = {
        "count": len(misleads),
        "all": len(found.depths) - 1,
        "blind": fixed(float(found.blind.mean()), 1),
        "first": fixed(float(found.kl[0].mean()), 1),
    }
    if not misleads:
        return view.t("causes.misleads_not", **numbers)
    last = depth_name(view, found.depths[misleads[-1]])
    return view.t("causes.misleads", last=last, **numbers)


def _one_place(view: View, here: _Shown) -> None:
    """The five most probable words at each depth, at one position."""
    found, place = here.found, here.place
    st.markdown(
        f"**{view.t('causes.place_title', token=controls.quoted_at(view, here.columns, place))}**"
    )
    rows = []
    for at, depth in enumerate(found.depths):
        said = zip(found.tokens[at, place].tolist(), found.probs[at, place].tolist(), strict=True)
        words = " ".join(
            f"{controls.quoted(view, token_name(view.loaded, token))}\u00a0{percent(chance)}"
            for token, chance in said
        ).replace("|", "\\|")
        rank = f"{int(found.ranks[at, place]):,}"
        rows.append((depth_name(view, depth), words, rank, digits(float(found.kl[at, place]))))
    head = [view.t(f"causes.{name}") for name in ("depth", "said", "rank_of", "kl")]
    with st.container(key="causes-said"):
        table(head, rows, "llrr")


def _by_depth(view: View, found: Lens) -> None:
    """The distance of the lens from the answer at each depth, compared with the uniform
    baseline."""
    st.markdown(f"**{view.t('causes.by_depth')}**")
    st.caption(view.t("causes.by_depth_note"))
    places = np.arange(len(found.depths))
    blind = np.full(len(places), float(found.blind.mean()))
    figure = lines(
        places,
        np.stack([found.kl.mean(1), blind]),
        [view.t("causes.kl_lens"), view.t("causes.kl_blind")],
        x_title=view.t("causes.depth"),
        y_title=view.t("causes.kl"),
        height=280,
        dark=view.dark,
    )
    names = [depth_name(view, depth) for depth in found.depths]
    every = max(1, len(names) // 14)
    ticks = {"tickvals": places[::every].tolist(), "ticktext": names[::every]}
    figure["layout"]["xaxis"] |= ticks
    controls.chart(figure, "causes.by_depth", alt=view.t("causes.by_depth"))
    sizes = found.sizes.mean(1)
    st.markdown(
        view.t(
            "causes.scale",
            first=digits(float(sizes[0])),
            last=digits(float(sizes[-1])),
            agree=int(found.agree[len(found.depths) // 2]),
            count=found.ranks.shape[1],
            depth=depth_name(view, found.depths[len(found.depths) // 2]),
        )
    )


def _numbers(view: View, found: Lens) -> dict[str, list[object]]:
    return {
        view.t("causes.depth"): [depth_name(view, depth) for depth in found.depths],
        view.t("causes.kl"): np.round(found.kl.mean(1), 4).tolist(),
        view.t("causes.first_at"): found.agree.tolist(),
        view.t("causes.size"): np.round(found.sizes.mean(1), 4).tolist(),
    }
