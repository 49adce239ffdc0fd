"""The gradient of LayerNorm or RMSNorm, manual and by autograd, with a slider per gamma."""

from functools import partial
from typing import Any

import numpy as np

from explorer.analysis.blocks.norms import BACKWARD, Backward, backward, batch_of
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.blocks.choices import GAMMAS, BlocksChoices
from explorer.exhibits.links import State
from explorer.exhibits.saying import SUBSCRIPTS
from explorer.figures.bars import grouped
from explorer.library import LoadedModel
from explorer.numbers import number, signed

UPSTREAM = np.array([0.6, -1.0, 0.3, 0.9, -0.4, 0.2])
"""The upstream gradient: arbitrary but distinct numbers."""
LAYER = (
    r"\frac{\partial L}{\partial x} = \frac{g - \overline{g} - n\,\overline{g n}}"
    r"{\sqrt{\sigma^2 + \varepsilon}},\qquad g = \gamma\,\frac{\partial L}{\partial y}"
)
RMS = (
    r"\frac{\partial L}{\partial x} = \frac{g - n\,\overline{g n}}"
    r"{\sqrt{\frac1d\sum_i x_i^2 + \varepsilon}},\qquad g = \gamma\,\frac{\partial L}{\partial y}"
)


def compute(
    loaded: LoadedModel, text: str, norm: str, gamma: tuple[int, ...]
) -> tuple[np.ndarray, str, Backward]:
    """The first features of the first token, a norm and its gradient: the chosen norm, the model's,
    or the first one with a backward pass by hand.

    Raises InputProblem: as `batch_of`.
    """
    kind = next(name for name in (norm, loaded.config.norm, *BACKWARD) if name in BACKWARD)
    x = batch_of(loaded, [text]).x[0, 0, : len(gamma)]
    return x, kind, backward(x, np.array(gamma) / 100, UPSTREAM, kind)


def show(answer: tuple[np.ndarray, str, Backward], view: View) -> b.Blocks:
    """The normalized features, and three computations of the gradient."""
    x, kind, result = answer
    gamma = view.choices(BlocksChoices).gamma
    title = view.t("blocks.backward", norm=view.t("designs.norm", kind))
    yield b.Title(title)
    yield b.Note(view.t("blocks.backward_note", count=len(GAMMAS)))
    yield b.Columns([(_slider(at, value),) for at, value in enumerate(gamma)], gap="small")
    features, feature = [str(at + 1) for at in range(len(x))], view.t("blocks.feature")
    names = (view.t("blocks.before"), view.t("blocks.behind"))
    more: dict[str, Any] = {"label_title": feature, "height": 300}
    values, value = (x, result.out), view.t("blocks.value")
    forward = partial(grouped, features, values, names, title=value, **more)
    answers = (result.by_hand, result.autograd, result.wrong)
    named = [*map(view.t, ("blocks.by_hand", "blocks.autograd", "blocks.late"))]
    back = partial(grouped, features, answers, named, title="∂L/∂x", **more)
    yield b.Columns(
        (
            (b.Chart("blocks.forward", forward, names[1]),),
            (b.Chart("blocks.backward", back, title),),
        )
    )
    words = [view.t("blocks.d_gamma", gamma=", ".join(map(signed, result.d_gamma)))]
    if result.d_beta is not None:
        words.append(view.t("blocks.d_beta", beta=", ".join(map(signed, result.d_beta))))
    yield b.Note(" · ".join(words))
    errors = {"error": number(result.error), "wrong": number(result.wrong_error)}
    yield b.Sentence("backward", view.t("blocks.read_backward", **errors))
    yield b.Formula((RMS if kind == "rmsnorm" else LAYER,))
    yield b.Code((backward, BACKWARD[kind]))


def _slider(at: int, gamma: int) -> b.Slider:
    def change(value: float) -> b.Change:
        def choices(state: State) -> dict[str, Any]:
            chosen = list(state.of(BlocksChoices).gamma)
            chosen[at] = round(100 * value)
            return {"gamma": tuple(chosen)}

        return b.Change(choices)

    label = f"γ{at + 1}".translate(SUBSCRIPTS)
    return b.Slider(f"blocks.gamma.{at}", label, b.Span(0.0, 3.0, 0.05), gamma / 100, change)


EXHIBIT = Exhibit(compute, show)
