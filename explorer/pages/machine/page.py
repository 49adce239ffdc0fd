"""Machine: all parts of the loaded model, with tensor shapes, parameters and costs."""

import streamlit as st

from explorer.analysis.machine.cost import cost, ways
from explorer.analysis.machine.parameters import count
from explorer.analysis.machine.parts import shapes, towers
from explorer.components import machine_view
from explorer.exhibits.claims.finding import finding_of, table_of
from explorer.exhibits.view import View
from explorer.numbers import percent
from explorer.pages.machine.asides import asides
from explorer.pages.machine.boxes import columns
from explorer.pages.machine.choices import MachineChoices
from explorer.pages.machine.counting import calculator
from explorer.pages.machine.reach import gradients
from explorer.render.drawing import Sheet, draw
from explorer.ui import controls, session
from explorer.ui.page import draw_page
from explorer.ui.stage import hero
from explorer.ui.tables import table
from models.attention import attend

LONG = 1000
"""Length in tokens of the long text in the comparison of architectures."""


def render(view: View) -> None:
    """Draw the page."""
    draw_page(view, "machine", _drawn)


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    controls.sentence_line(view)
    controls.edits_bar(view, "machine.reset")
    made = towers(view.loaded, view.trace)
    whole = count(view.loaded.model)
    most = max(whole.by_kind, key=lambda kind: whole.by_kind[kind])
    with hero():
        controls.reading(
            "machine",
            view.t(
                "machine.reading",
                total=f"{whole.total:,}",
                most=view.t(f"machine.kinds.{most}"),
                share=percent(whole.by_kind[most] / whole.total),
                tensors=len(shapes(view.loaded, view.trace)),
            ),
        )
    _unfold(view, max(len(tower.layers) for tower in made))
    with hero():
        opened = machine_view(columns(view, made), key="machine.view")
    if opened is not None and opened.href:
        session.follow(opened.href)
    with st.expander(view.t("machine.calculator")):
        calculator(view)
    with st.expander(view.t("machine.ways")):
        _ways(view)
        gradients(view)
    _measured(view)
    controls.small_print(
        view,
        "machine",
        formula=(
            r"\text{attention} = 2d^2 + 2d\,n_\mathrm{kv}d_\mathrm{head}, \qquad "
            r"\text{feed-forward} = 2\,d\,d_\mathrm{ff}\;\text{or}\;3\,d\,d_\mathrm{ff}",
            r"\mathrm{FLOPs}(n) = 2\,n\,\text{weights} + 4\,n^2 d\cdot\text{attentions}, \qquad "
            r"\text{cache}(n) = 2\,n\,n_\mathrm{kv}d_\mathrm{head}\cdot\text{layers}\cdot 4",
        ),
        code=(*_model(view), towers, count, cost, ways),
        numbers=lambda: _numbers(view),
    )
    asides(view)


def _unfold(view: View, n_layers: int) -> None:
    """The control for the layer drawn part by part; nothing if there is one."""
    if n_layers == 1:
        return
    chosen = min(view.choices(MachineChoices).unfolded, n_layers - 1)
    st.session_state["machine.unfolded"] = chosen + 1
    st.slider(
        view.t("machine.unfolded"),
        1,
        n_layers,
        key="machine.unfolded",
        width=340,
        help=view.t("machine.unfolded_help"),
        on_change=lambda: session.change(unfolded=st.session_state["machine.unfolded"] - 1),
    )


def _model(view: View) -> list[object]:
    """The code of the model, from token ids to logits, with one block."""
    model = view.loaded.model
    stack = model.last_stack
    block = stack.blocks[0]
    reads = [model.memory_of] if "src" in model.reads else []
    return [
        *(model.read, *reads, stack.run, stack.embed_tokens, stack.positions),
        *(block, block.residual, block.attn, attend, block.attn_norm, block.ffn),
    ]


def _ways(view: View) -> None:
    """Path lengths and costs of recurrent and convolutional networks for the same words."""
    st.markdown(view.t("machine.ways_lead"))
    own = max(len(view.trace.src_tokens), len(view.trace.tgt_tokens))
    heads = view.t("machine.ways_head"), view.t("machine.path")
    names = (f"{head}: {n:,}" for n in (own, LONG) for head in heads)
    rows = [
        (
            view.t(f"machine.ways_{here.kind}"),
            *(f"{n:,}" for n in (here.steps, here.path, there.steps, there.path)),
        )
        for here, there in zip(ways(own), ways(LONG), strict=True)
    ]
    table(("", *names), rows)


def _measured(view: View) -> None:
    """One training pass compared with token-by-token decoding, timed with this model on request.

    Nothing for a model that does not generate token by token.
    """
    if view.trace.predicts != "next":
        return
    st.subheader(view.t("machine.passes"), anchor=False)
    st.markdown(view.t("machine.passes_lead"))
    if not st.toggle(view.t("machine.measure"), key="machine.measure"):
        return
    place = st.empty()

    def show(done: float) -> None:
        place.progress(min(done, 1.0), view.t("claims.working"))

    found = finding_of(view.run, "parallel", progress=show)
    place.empty()
    draw(Sheet(view, "machine"), table_of(view, found))
    once, slow, quick = (row.values[2] for row in found.rows)
    values = {"slow": f"{slow / once:.0f}", "quick": f"{quick / once:.0f}"}
    controls.reading("passes", view.t("machine.passes_reading", **values))


def _numbers(view: View) -> dict[str, list[object]]:
    found = shapes(view.loaded, view.trace)
    return {
        view.t("machine.tensor"): list(found),
        view.t("machine.shape"): [" × ".join(map(str, shape)) for shape in found.values()],
    }
