"""A mixture of experts: to which networks the router sends each token, and what they contribute."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from explorer.exhibits import Exhibit, View, block as b, saying
from explorer.exhibits.blocks.choices import BlocksChoices
from explorer.exhibits.exhibit import EXPERTS
from explorer.exhibits.picking import pick_number
from explorer.figures.blocks import routes
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.runs.rerun import rerun
from explorer.runs.trace import Trace
from models.feedforward import Experts
from models.hooks import LOGITS, Edits


@dataclass(frozen=True, eq=False)
class Routed:
    """The router's weights in one layer, and the next token with some experts off.

    `before` and `after` are probabilities at the last position, without and with the experts off.
    """

    layer: int
    weights: Float[np.ndarray, "pos expert"]
    before: Float[np.ndarray, " vocab"]
    after: Float[np.ndarray, " vocab"]


def compute(
    loaded: LoadedModel, trace: Trace, layer: int, experts_off: tuple[int, ...]
) -> Routed | None:
    """The weights of the experts for every token; None for a model without experts.

    An expert that is off adds nothing for the tokens sent to it; the other weights stay as they
    are. The weights are those before experts were switched off in this layer.
    """
    stack = trace.stacks[-1]
    at = min(layer, stack.n_layers - 1)
    if not isinstance(loaded.model.get_submodule(stack.path("blocks", at, "ffn")), Experts):
        return None
    hook, off = stack.block_hook(at, "router", "ffn"), list(experts_off)

    def without(weights: torch.Tensor) -> torch.Tensor:
        kept = weights.clone()
        kept[..., [n for n in off if n < weights.shape[-1]]] = 0
        return kept

    plain = rerun(loaded, trace, {hook, LOGITS})
    changed = rerun(loaded, trace, {LOGITS}, Edits({hook: without}))
    last = int(np.flatnonzero(trace.tgt_valid)[-1])
    before, after = (
        record[LOGITS][0, last].softmax(-1).numpy() if loaded.config.lm_head else np.zeros(0)
        for record in (plain, changed)
    )
    return Routed(at, plain[hook][0].float().numpy(), before, after)


def show(routed: Routed | None, view: View) -> b.Blocks:
    """A row per token and a column per expert; experts can be switched off."""
    if routed is None:
        return
    yield b.SentenceLine()
    tokens, n = view.trace.tgt_str_tokens, routed.weights.shape[1]
    off = [at for at in view.chosen("experts_off", BlocksChoices) if at < n]
    yield b.Sentence("experts", _said(view, routed, off))
    layers = range(view.trace.stacks[-1].n_layers)
    names = [str(at + 1) for at in range(view.loaded.config.n_experts)]
    names += [view.t("blocks.shared_expert")] * (n - len(names))
    yield b.Row(
        (
            pick_number(view, "blocks.layer", "place.layer", layers, routed.layer, _layer),
            b.Several(
                "blocks.experts_off",
                view.t("blocks.experts_off"),
                dict(enumerate(names[:n])),
                off,
                lambda chosen: b.choose(experts_off=tuple(sorted(chosen))),
                n,
            ),
        )
    )
    titles: dict[str, Any] = {"title": view.t("blocks.router"), "x_title": view.t("blocks.expert")}
    drawn = routes(routed.weights, tokens, names, **titles, y_title=view.stream("tgt"))
    yield b.Matrices("blocks.experts", ((view.t("blocks.router"), drawn),))
    config, words = view.loaded.config, [view.t("blocks.experts_formula")]
    formula = r"\mathrm{FFN}(x) = \sum_{e \in E_k(x)} g_e(x)\,\mathrm{FFN}_e(x)"
    if config.experts_sum:
        words.append(view.t("blocks.experts_sum"))
    if config.d_shared:
        formula += r" + \sigma(w_s^\top x)\,\mathrm{FFN}_s(x)"
        words.append(view.t("blocks.shared_formula"))
    yield b.Formula((formula, r"g(x) = \mathrm{softmax}(W_r x)"), saying.in_a_row(words))
    path = view.trace.stacks[-1].path("blocks", routed.layer, "ffn")
    yield b.Code((view.loaded.model.get_submodule(path), compute))
    named = {
        f"{view.t('blocks.expert')} {names[at]}": routed.weights[:, at].tolist() for at in range(n)
    }
    yield b.Numbers(lambda: {view.t("place.query"): list(tokens), **named})


def _layer(at: int) -> b.Change:
    return b.choose(layer=at)


def _said(view: View, routed: Routed, off: list[int]) -> str:
    """The effect of the experts that are off; if none is, the expert that most tokens go to."""
    if off and len(routed.before):
        tops = [int(each.argmax()) for each in (routed.before, routed.after)]
        first, then = (saying.quoted(view, each) for each in view.loaded.str_tokens(tops))
        was, now = percent(float(routed.before[tops[0]])), percent(float(routed.after[tops[1]]))
        return view.t("blocks.read_off", first=first, then=then, was=was, now=now)
    real = routed.weights[view.trace.tgt_valid, : view.loaded.config.n_experts]
    sent = (real > 0).sum(0)
    most = int(sent.argmax())
    words = {"expert": most + 1, "n": int(sent[most]), "count": len(real)}
    return view.t("blocks.read_experts", active=view.loaded.config.n_active, **words)


EXHIBIT = Exhibit(compute, show, needs=EXPERTS)
