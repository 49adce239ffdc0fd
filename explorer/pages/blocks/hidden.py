"""Inside the feed-forward network: hidden units for the sentence's tokens, with SwiGLU's gate."""

from collections.abc import Container

import numpy as np
import streamlit as st

from explorer.analysis.blocks.activations import Hidden, hidden
from explorer.exhibits.view import View
from explorer.figures.blocks.hidden import units
from explorer.numbers import fixed, share
from explorer.ui import controls, session
from explorer.ui.parts import pick_stream
from models.feedforward import GATED, FeedForwardKind

MOST_UNITS = 64


def hidden_units(view: View) -> None:
    """Inputs and outputs of the activation, by unit and token."""
    controls.sentence_line(view)
    controls.edits_bar(view, "blocks.reset")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        stream = pick_stream(view, "blocks.stream")
        stack = next(stack for stack in view.trace.stacks if stack.stream == stream)
        n_layers = stack.n_layers
        layer = min(view.layer, n_layers - 1)
        with st.container(width=110):
            controls.pick(
                view.t("place.layer"),
                range(n_layers),
                layer,
                "blocks.layer",
                lambda at: session.change(site=stack.role, layer=at, head=0),
                format_func=lambda at: str(at + 1),
            )
    found = hidden(view.loaded, view.trace, stack.role, layer)
    chosen = found.strongest(MOST_UNITS)
    tokens = view.trace.src_str_tokens if stream == "src" else view.trace.tgt_str_tokens
    with controls.reading_first():
        pictures = [("pre", found.pre), ("post", found.post)]
        if found.gate is not None:
            pictures = [("gate", found.gate), ("up", found.pre), ("product", found.post)]
        for column, (name, values) in zip(
            st.columns(len(pictures), gap="medium"), pictures, strict=True
        ):
            title = view.t(f"blocks.{name}")
            with column:
                st.markdown(f"**{title}**")
                figure = units(
                    values[:, chosen],
                    chosen,
                    tokens,
                    title=view.t("blocks.activity"),
                    x_title=view.t("blocks.unit"),
                    y_title=view.stream(stream),
                    stream=stream,
                    dark=view.dark,
                )
                controls.chart(figure, f"blocks.hidden.{name}", alt=title)
        st.caption(view.t("blocks.units", shown=len(chosen), count=found.post.shape[1]))
        controls.reading("hidden", _reading(view, found, tokens))
    controls.small_print(
        view,
        "blocks",
        formula=(_formula(view.loaded.config.ffn, found.biased),),
        code=(view.loaded.model.get_submodule(stack.path("blocks", layer, "ffn")), hidden),
        numbers=lambda: _numbers(view, found, chosen, tokens),
        explained="blocks.hidden_formula",
    )


def _formula(kind: FeedForwardKind, biased: Container[str]) -> str:
    """The formula of this layer's network; `biased` are its matrices with a bias."""

    def linear(name: str, x: str) -> str:
        bias = rf" + b_\mathrm{{{name}}}" if f"w_{name}" in biased else ""
        return rf"W_\mathrm{{{name}}}\,{x}{bias}"

    up = linear("up", "x")
    activation = {
        "relu": r"\mathrm{ReLU}",
        "gelu": r"\mathrm{GELU}",
        "gelu_tanh": r"\mathrm{GELU}_{\tanh}",
        "silu": r"\mathrm{SiLU}",
        "swiglu": r"\mathrm{SiLU}",
        "geglu_tanh": r"\mathrm{GELU}_{\tanh}",
    }[kind]
    if kind in GATED:
        up = rf"\left({up}\right)" if "w_up" in biased else up
        gated = rf"\left({activation}({linear('gate', 'x')}) \odot {up}\right)"
        name = {"swiglu": "SwiGLU", "geglu_tanh": "GEGLU"}[kind]
        return rf"\mathrm{{{name}}}(x) = {linear('down', gated)}"
    return rf"\mathrm{{FFN}}(x) = {linear('down', rf'{activation}({up})')}"


def _reading(view: View, found: Hidden, tokens: tuple[str, ...]) -> str:
    position, unit = np.unravel_index(np.abs(found.post).argmax(), found.post.shape)
    words = {
        "unit": int(unit),
        "token": controls.quoted_at(view, tokens, int(position)),
        "value": fixed(float(found.post[position, unit])),
    }
    if found.gate is None:
        return view.t("blocks.read_hidden", silent=share(found.silent), **words)
    gate, up = (fixed(float(each[position, unit])) for each in (found.gate, found.pre))
    return view.t("blocks.read_gate", shut=share(found.shut), gate=gate, up=up, **words)


def _numbers(
    view: View, found: Hidden, chosen: np.ndarray, tokens: tuple[str, ...]
) -> dict[str, list[object]]:
    strongest = chosen[np.argsort(-np.abs(found.post[:, chosen]).max(0), kind="stable")[:8]]
    columns: dict[str, list[object]] = {
        view.t("place.query"): [f"{at} {token}" for at, token in enumerate(tokens)]
    }
    for unit in strongest:
        name = f"{view.t('blocks.unit')} {unit}"
        columns[name] = np.round(found.post[:, unit], 3).tolist()
    return columns
