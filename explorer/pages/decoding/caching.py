"""The KV cache: its contents after each step, its size, and the saved work."""

import numpy as np
import streamlit as st

from explorer.analysis.decoding.caching import (
    LENGTHS,
    CacheComparison,
    Timing,
    cache_bytes,
    cached_and_not,
    decoding_multiply_adds,
    lengths_for,
    timings,
)
from explorer.components import cache_view, pack_cache_view
from explorer.engine import jobs
from explorer.exhibits.shared import PartChoices
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.numbers import number
from explorer.pages.decoding import cached
from explorer.runs.generation import Generation
from explorer.text import LARGE_UNITS, in_units
from explorer.ui import controls, running, session
from models.cache import KVCache, LayerCache

NAME = "caching.timings"


def caching(view: View, generation: Generation) -> None:
    """Draw the section."""
    source = [view.t("caching.source")] if view.loaded.config.reads_source else []
    st.markdown(" ".join([view.t("caching.lead"), *source]))
    if view.trace.edits:
        st.caption(view.t("caching.without_edits"))
    with st.spinner(view.t("caching.working")):
        found = cached.cache_of(generation)
    heads = _heads(view)
    data = pack_cache_view(
        found.keys,
        found.values,
        generation.steps[-1].input_tokens,
        found.n_bytes,
        first=found.first,
        cross_keys=found.cross_keys,
        cross_values=found.cross_values,
        source=generation.src_str_tokens,
        kept_heads=heads,
        step=min(view.step, len(found.n_bytes) - 1),
        words=view.words("components.cache_view"),
    )
    cache_view(data, key="caching.view")
    _reading(view, generation, found, heads)
    _spared(view, generation, found)
    controls.small_print(
        view,
        "caching",
        formula=(
            r"K_t = [\,K_{t-1};\ x_t W_K\,], \qquad V_t = [\,V_{t-1};\ x_t W_V\,], \qquad "
            r"z_t = \mathrm{softmax}\!\left(" + view.scaled(r"q_t K_t^\top") + r"\right) V_t",
            r"\text{cache}(t) = 2\,t\,n_\mathrm{kv}d_\mathrm{head}\cdot\text{layers}\cdot 4",
        ),
        code=(
            *(cached_and_not, view.loaded.model.last_stack.blocks[0].attn, KVCache, LayerCache),
            *(decoding_multiply_adds, cache_bytes),
        ),
        numbers=lambda: {
            view.t("caching.length"): [found.first + at + 1 for at in range(len(found.n_bytes))],
            view.t("caching.bytes"): list(found.n_bytes),
            view.t("onepass.gap"): [f"{gap:.2g}" for gap in found.gaps],
        },
        explained="caching.formula",
    )


def _heads(view: View) -> int:
    """The control for the number of key/value heads: the model's own, or fewer."""
    own = view.loaded.config.kv_heads
    choices = [n for n in range(1, own + 1) if own % n == 0]
    if len(choices) == 1:
        st.caption(view.t("caching.one_head", heads=view.loaded.config.n_heads))
        return own
    asked = view.choices(PartChoices).kv_heads
    now = asked if asked in choices else own
    st.session_state["caching.heads"] = now
    st.select_slider(
        view.t("caching.heads", heads=view.loaded.config.n_heads),
        choices,
        key="caching.heads",
        help=view.t("caching.heads_help"),
        width=320,
        on_change=lambda: session.change(kv_heads=st.session_state["caching.heads"]),
    )
    return now or own


def _reading(view: View, generation: Generation, found: CacheComparison, heads: int) -> None:
    config = view.loaded.config
    length = found.first + len(generation.steps)
    whole, less = (
        cache_bytes(config, len(generation.src_str_tokens), length, n)
        for n in (config.kv_heads, heads)
    )
    controls.reading(
        "caching",
        view.t(
            "caching.reading" if heads == config.kv_heads else "caching.reading_fewer",
            bytes=f"{whole:,}",
            less=f"{less:,}",
            heads=heads,
            own=config.kv_heads,
            largest=number(found.largest),
        ),
    )


def _spared(view: View, generation: Generation, found: CacheComparison) -> None:
    """Multiply-adds and milliseconds with and without a cache, for lengths up to 256."""
    config, n_src = view.loaded.config, len(generation.src_str_tokens)
    own = len(generation.steps)
    st.subheader(view.t("caching.spared"), anchor=False)
    adds = [decoding_multiply_adds(config, n_src, found.first + 1, n) for n in range(1, 257)]
    with_cache, without = adds[own - 1]
    st.markdown(
        view.t(
            "caching.adds",
            count=own,
            cached=in_units(with_cache, lang=view.lang),
            uncached=in_units(without, lang=view.lang),
            times=f"{without / with_cache:.1f}",
        )
    )
    names = [view.t("caching.with"), view.t("caching.without")]
    left, right = st.columns(2, gap="large")
    with left:
        st.caption(view.t("caching.adds_title"))
        figure = lines(
            np.arange(1, 257),
            np.array(adds, float).T / LARGE_UNITS[view.lang][0],
            names,
            x_title=view.t("caching.length"),
            y_title=view.t("caching.billions"),
            marked_x=float(own),
            height=240,
            dark=view.dark,
        )
        controls.chart(figure, "caching.adds", alt=view.t("caching.adds_title"))
    with right:
        st.caption(view.t("caching.ms_title"))
        _measured(view, generation, names)


def _measured(view: View, generation: Generation, names: list[str]) -> None:
    """Measured times, on request."""
    own = len(generation.steps)
    key = (view.loaded.name, generation.given, own)
    job = st.session_state.get(NAME)
    if job is None or job.key != key:
        fitting = lengths_for(view.loaded, generation.given, LENGTHS)
        st.markdown(view.t("caching.ask", lengths=", ".join(map(str, fitting))))
        if not st.button(view.t("caching.run"), key="caching.run", icon=":material/timer:"):
            return
        wanted = tuple(sorted({own, *LENGTHS}))
        job = running.job(
            NAME,
            key,
            lambda tell: jobs.walked(timings(view.loaded, generation.given, wanted), tell),
        )
    if not running.finished(
        job, NAME, view.t("caching.measuring"), view.t("decoding.stop"), view.lang
    ):
        return
    found: tuple[Timing, ...] = job.result()
    figure = lines(
        np.array([each.length for each in found]),
        np.array([[each.cached_ms, each.uncached_ms] for each in found]).T,
        names,
        x_title=view.t("caching.length"),
        y_title=view.t("caching.ms"),
        marked_x=float(own),
        height=240,
        dark=view.dark,
    )
    for trace in figure["data"]:
        trace["mode"] = "lines+markers"
    controls.chart(figure, "caching.ms", alt=view.t("caching.ms_title"))
    at = next((each for each in found if each.length == own), None)
    if at is not None:
        st.markdown(
            view.t(
                "caching.own",
                count=own,
                cached=f"{at.cached_ms:.0f}",
                uncached=f"{at.uncached_ms:.0f}",
                times=f"{at.uncached_ms / at.cached_ms:.1f}",
            )
        )
