"""The calculator: parameters for any sizes, FLOPs and bytes by length, published tables checked."""

import numpy as np
import streamlit as st

from explorer.analysis.machine.cost import Cost, cost
from explorer.analysis.machine.parameters import KINDS
from explorer.exhibits.claims.finding import finding_of, table_of, words_of
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.figures.measured import measured
from explorer.numbers import byte_size, percent
from explorer.pages.machine import cached
from explorer.pages.machine.choices import MachineChoices
from explorer.pages.machine.sizes import OWN, PRESETS, Sizes, parse_sizes
from explorer.render.drawing import Sheet, draw
from explorer.ui import controls, session
from explorer.ui.problem import show_refused
from models.config import ModelConfig

LENGTHS = tuple(2**power for power in range(4, 14))
WIDTHS = (64, 128, 256, 512, 768, 1024, 2048, 4096)
HEADS = (1, 2, 4, 8, 12, 16, 32, 64)
LAYERS = (1, 2, 3, 6, 12, 24, 32, 48)
HIDDEN = (128, 256, 512, 1024, 2048, 3072, 4096, 8192, 11_008, 16_384)
VOCABULARIES = (0, 100, 1000, 8000, 32_000, 37_000, 50_000, 128_000)
EXAMPLE = (2, 10, 5)
"""Batch size, source length and target length for the shape of the logits."""
TABLES = ("totals", "ffn_table", "layer_shapes", "mha_count", "tying")


def calculator(view: View) -> None:
    """The size controls, the parameter count by part, and costs by length."""
    st.markdown(view.t("machine.calculator_lead"))
    config, chosen = _config(view)
    whole = chosen.vocab_size > 0
    with st.spinner(view.t("machine.counting")):
        found = cached.count(config) if whole else cached.layers(config)
    shown = [kind for kind in KINDS if found.by_kind[kind]]
    left, right = st.columns([3, 2], gap="large")
    with left:
        figure = measured(
            [view.t(f"machine.kinds.{kind}") for kind in shown],
            np.array([found.by_kind[kind] for kind in shown], float),
            title=view.t("machine.parameters"),
            dark=view.dark,
        )
        controls.chart(figure, "machine.parts", alt=view.t("machine.calculator"))
    with right:
        st.metric(view.t("machine.parameters"), f"{found.total:,}")
        st.metric(view.t("machine.bytes"), byte_size(4 * found.total))
        st.caption(view.t("machine.half", size=byte_size(2 * found.total)))
        if whole and config.lm_head:
            shape = " × ".join(f"{n:,}" for n in cached.logits(config, *EXAMPLE))
            batch, src, tgt = EXAMPLE
            key = "machine.logits" if config.reads_source else "machine.logits_one"
            st.caption(view.t(key, batch=batch, src=src, tgt=tgt, shape=shape))
    _lengths(view, [cost(config, n, 4 * found.total, unembeds=whole) for n in LENGTHS])
    _tables(view)


def _config(view: View) -> tuple[ModelConfig, Sizes]:
    """The config and sizes from the link; the loaded model's own by default."""
    own = view.loaded.config
    chosen = parse_sizes(view.choices(MachineChoices).sizes, own)
    if chosen is None:
        show_refused("sizes", view.choices(MachineChoices).sizes, view.lang)
        chosen = Sizes.of(own)
    preset = next((name for name, each in PRESETS.items() if each == chosen), "")
    if chosen == Sizes.of(own):
        preset = OWN
    st.session_state["machine.preset"] = preset or None
    st.pills(
        view.t("machine.preset"),
        (OWN, *PRESETS),
        format_func=lambda name: view.t(f"machine.presets.{name}"),
        key="machine.preset",
        label_visibility="collapsed",
        on_change=lambda: session.change(sizes=st.session_state["machine.preset"] or ""),
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _size(view, chosen, "d_model", WIDTHS)
        _size(view, chosen, "n_heads", tuple(n for n in HEADS if chosen.d_model % n == 0))
        _size(view, chosen, "kv_heads", tuple(n for n in HEADS if chosen.n_heads % n == 0))
        _size(view, chosen, "n_layers", LAYERS)
        _size(view, chosen, "d_ff", HIDDEN)
        _size(view, chosen, "vocab_size", VOCABULARIES)
        if chosen.has_encoder and chosen.vocab_size:
            _size(view, chosen, "src_vocab", VOCABULARIES)
    with st.container(horizontal=True, vertical_alignment="center"):
        for name in ("has_encoder", "swiglu", "bias", "tied", "out_bias", "final_norm"):
            _switch(view, chosen, name)
    return own if preset == OWN else chosen.config(), chosen


def _size(view: View, chosen: Sizes, name: str, choices: tuple[int, ...]) -> None:
    value = getattr(chosen, name)
    nothing = view.t("machine.shared" if name == "src_vocab" else "machine.layers_alone")
    with st.container(width=130):
        controls.pick(
            view.t(f"machine.{name}"),
            sorted({*choices, value}),
            value,
            f"machine.{name}",
            lambda size: session.change(sizes=chosen.with_size(name, size).text()),
            format_func=lambda size: f"{size:,}" if size else nothing,
        )


def _switch(view: View, chosen: Sizes, name: str) -> None:
    key = f"machine.{name}"
    st.session_state[key] = getattr(chosen, name)
    st.toggle(
        view.t(f"machine.{name}"),
        key=key,
        on_change=lambda: session.change(
            sizes=chosen.with_switch(name, st.session_state[key]).text()
        ),
    )


def _lengths(view: View, costs: list[Cost]) -> None:
    """Work and memory against text length, with the length from which the N² term dominates."""
    st.markdown(f"**{view.t('machine.lengths')}**")
    x = np.array([each.length for each in costs])
    left, right = st.columns(2, gap="large")
    with left:
        st.caption(view.t("machine.work"))
        work = [[c.linear_flops / 1e9, c.attention_flops / 1e9] for c in costs]
        names = [view.t("machine.linear"), view.t("machine.square")]
        _curves(view, "machine.work", x, np.array(work).T, names, "GFLOP")
    with right:
        st.caption(view.t("machine.memory"))
        kept = {"patterns": "pattern_bytes", "cache": "cache_bytes", "weights": "weight_bytes"}
        if not costs[0].cache_bytes:  # a bidirectional model has no KV cache
            del kept["cache"]
        memory = [[getattr(each, field) for field in kept.values()] for each in costs]
        names = [view.t(f"machine.{name}") for name in kept]
        _curves(view, "machine.memory", x, np.array(memory).T / 2**20, names, "MiB")
    first = costs[0]
    crossing = round(first.length * first.linear_flops / first.attention_flops)
    here = len(view.trace.tgt_tokens)
    share = here / (here + crossing)
    values = {"crossing": f"{crossing:,}", "length": here, "share": percent(share)}
    controls.reading("lengths", view.t("machine.lengths_reading", **values))


def _curves(
    view: View, key: str, x: np.ndarray, ys: np.ndarray, names: list[str], unit: str
) -> None:
    figure = lines(
        x,
        ys,
        names,
        x_title=view.t("machine.length"),
        y_title=unit,
        log_x=True,
        log_y=True,
        dark=view.dark,
    )
    controls.chart(figure, key, alt=view.t(key))


def _tables(view: View) -> None:
    """Frequently published tables, recomputed, with their errors."""
    if not st.toggle(view.t("machine.tables"), key="machine.tables"):
        return
    with st.spinner(view.t("machine.counting")):
        for claim in TABLES:
            found = finding_of(view.run, claim)
            st.markdown(f"**{view.t(f'claims.{claim}.claim')}**")
            draw(Sheet(view, "machine"), table_of(view, found))
            st.markdown(words_of(view, claim, found))
