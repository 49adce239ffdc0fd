"""Inside the feed-forward network: hidden units for the sentence's tokens, with SwiGLU's gate."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from explorer.exhibits import Exhibit, View, block as b, saying
from explorer.exhibits.blocks.norms import model_line
from explorer.exhibits.picking import pick_number, pick_stream
from explorer.figures.blocks import units
from explorer.library import LoadedModel
from explorer.numbers import fixed, share
from explorer.runs.rerun import rerun
from explorer.runs.trace import Trace
from models.feedforward import GATED
from models.hooks import StackSite
from models.rows import Stream

MOST_UNITS = 64


@dataclass(frozen=True, eq=False)
class Hidden:
    """The hidden units of one block for one sentence, each [pos, d_ff].

    `pre` is the input of the activation; for SwiGLU it is the output of w_up, and `gate` is
    silu(w_gate x). `post` is the input of w_down: activation(pre), or the product of both. `biased`
    names the matrices whose bias is not all zeros: a model with biases in attention only is loaded
    with zero biases elsewhere.
    """

    pre: Float[np.ndarray, "pos d_ff"]
    post: Float[np.ndarray, "pos d_ff"]
    gate: Float[np.ndarray, "pos d_ff"] | None = None
    biased: frozenset[str] = frozenset()

    def strongest(self, n: int) -> np.ndarray:
        """The `n` units with the largest |post| on any token, in index order."""
        reach = np.abs(self.post).max(0)
        return np.sort(np.argsort(-reach, kind="stable")[:n])

    @property
    def silent(self) -> float:
        """The share of (token, unit) pairs that add nothing: |post| below 1e-6."""
        return float((np.abs(self.post) < 1e-6).mean())

    @property
    def shut(self) -> float:
        """The share of (token, unit) pairs whose gate is nearly shut: |gate| below 0.05."""
        return 0.0 if self.gate is None else float((np.abs(self.gate) < 0.05).mean())


def hidden(
    loaded: LoadedModel, traced: Trace, stack: Literal["encoder", "decoder"], layer: int
) -> Hidden:
    """Rerun a Trace's rows and record one block's hidden units.

    `stack` is "encoder" or "decoder". Raises KeyError for a missing block, ValueError for another
    model's Trace.
    """
    of_role = {site.role: site for site in loaded.stacks}
    hooks = {
        what: of_role[stack].block_hook(layer, what, "ffn") for what in ("pre", "post", "gate")
    }
    seen = rerun(loaded, traced, set(hooks.values()))
    gate = seen.get(hooks["gate"])
    pre, post = (seen[hooks[what]][0].numpy() for what in ("pre", "post"))
    net = loaded.model.get_submodule(of_role[stack].path("blocks", layer, "ffn"))
    matrices = {
        name: module for name, module in net.named_children() if isinstance(module, nn.Linear)
    }
    return Hidden(
        pre=pre,
        post=post,
        gate=None if gate is None else gate[0].numpy(),
        biased=frozenset(
            name
            for name, matrix in matrices.items()
            if isinstance(matrix.bias, Tensor) and matrix.bias.any()
        ),
    )


def compute(
    loaded: LoadedModel, trace: Trace, stream: Stream, layer: int
) -> tuple[StackSite, int, Hidden]:
    """The stack that reads a sequence, the layer in it, and its hidden units."""
    stack = trace.stack(stream)
    at = min(layer, stack.n_layers - 1)
    return stack, at, hidden(loaded, trace, stack.role, at)


def show(answer: tuple[StackSite, int, Hidden], view: View) -> b.Blocks:
    """Inputs and outputs of the activation, by unit and token."""
    stack, layer, activity = answer
    yield from model_line(view)
    yield b.SentenceLine()
    yield b.Changes("blocks.reset")

    def change(at: int) -> b.Change:
        return b.choose(site=stack.role, layer=at, head=0)

    layers = range(stack.n_layers)
    menu = pick_number(view, "blocks.layer", "place.layer", layers, layer, change)
    yield b.Row((*pick_stream(view, "blocks.stream"), b.Pane((menu,), 110)))
    chosen, tokens, stream = activity.strongest(MOST_UNITS), view.str_tokens(), view.sequence
    yield b.Sentence("hidden", _said(view, activity, tokens))
    pictures = {"blocks.pre": activity.pre, "blocks.post": activity.post}
    if activity.gate is not None:
        pictures = {"blocks.gate": activity.gate, "blocks.up": activity.pre}
        pictures["blocks.product"] = activity.post
    titles: dict[str, Any] = {"title": view.t("blocks.activity"), "x_title": view.t("blocks.unit")}
    titles |= {"y_title": view.stream(stream), "stream": stream}
    yield b.Matrices(
        "blocks.hidden",
        [
            (view.t(key), units(values[:, chosen], chosen, tokens, **titles))
            for key, values in pictures.items()
        ],
    )
    yield b.Note(view.t("blocks.units", shown=len(chosen), count=activity.post.shape[1]))
    formula = _formula(view.loaded.config.ffn, activity.biased)
    yield b.Formula((formula,), view.t("blocks.hidden_formula"))
    yield b.Code((view.loaded.model.get_submodule(stack.path("blocks", layer, "ffn")), hidden))
    yield b.Numbers(lambda: _numbers(view, activity, chosen, tokens))


def _formula(kind: str, biased: Container[str]) -> str:
    """The formula of this layer's network; `biased` are its matrices with a bias."""

    def linear(name: str, x: str) -> str:
        bias = rf" + b_\mathrm{{{name}}}" if f"w_{name}" in biased else ""
        return rf"W_\mathrm{{{name}}}\,{x}{bias}"

    up = linear("up", "x")
    activation = _symbol(GATED.get(kind, kind))
    if kind in GATED:
        up = rf"\left({up}\right)" if "w_up" in biased else up
        gated = rf"\left({activation}({linear('gate', 'x')}) \odot {up}\right)"
        return rf"{_symbol(kind)}(x) = {linear('down', gated)}"
    return rf"\mathrm{{FFN}}(x) = {linear('down', rf'{activation}({up})')}"


def _symbol(name: str) -> str:
    """A network or activation in a formula; of a new kind, its registered name."""
    known = {
        "relu": r"\mathrm{ReLU}",
        "gelu": r"\mathrm{GELU}",
        "gelu_tanh": r"\mathrm{GELU}_{\tanh}",
        "gelu_quick": r"\mathrm{GELU}_{\sigma}",
        "silu": r"\mathrm{SiLU}",
        "swiglu": r"\mathrm{SwiGLU}",
        "geglu": r"\mathrm{GEGLU}",
        "geglu_tanh": r"\mathrm{GEGLU}",
    }
    return known.get(name) or rf"\mathrm{{{name.replace('_', '')}}}"


def _said(view: View, activations: Hidden, tokens: tuple[str, ...]) -> str:
    position, unit = np.unravel_index(np.abs(activations.post).argmax(), activations.post.shape)
    words = {
        "unit": int(unit),
        "token": saying.quoted_at(view, tokens, int(position)),
        "value": fixed(float(activations.post[position, unit])),
    }
    if activations.gate is None:
        return view.t("blocks.read_hidden", silent=share(activations.silent), **words)
    gate, up = (
        fixed(float(values[position, unit])) for values in (activations.gate, activations.pre)
    )
    return view.t("blocks.read_gate", shut=share(activations.shut), gate=gate, up=up, **words)


def _numbers(
    view: View, activations: Hidden, chosen: np.ndarray, tokens: tuple[str, ...]
) -> dict[str, list[object]]:
    strongest = chosen[np.argsort(-np.abs(activations.post[:, chosen]).max(0), kind="stable")[:8]]
    labels, word = [f"{at} {token}" for at, token in enumerate(tokens)], view.t("blocks.unit")
    units = {f"{word} {unit}": activations.post[:, unit].round(3).tolist() for unit in strongest}
    return {view.t("place.query"): labels, **units}


EXHIBIT = Exhibit(compute, show)
