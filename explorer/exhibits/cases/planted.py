"""The effect of a bug on the open model: the bug injected into every affected layer."""

import math
from functools import partial
from typing import Any

import numpy as np

from explorer.analysis.cases import BY_ID
from explorer.analysis.cases.symptom import Symptom, TokenLosses, symptom
from explorer.exhibits import Exhibit, View, Wait, block as b, saying
from explorer.exhibits.cases.case import opened
from explorer.exhibits.cases.outcome import as_text
from explorer.figures.bars import grouped
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.runs.passes import Steps
from explorer.runs.rerun import rows_of
from explorer.runs.trace import Trace


def compute(loaded: LoadedModel, unedited: Trace, opened_case: str) -> Steps[Symptom | None]:
    """The output with and without the bug; None if it cannot be injected into this model.

    Raises InputProblem.
    """
    case = BY_ID[opened_case]
    if case.plant is None or not case.fits(loaded.model, rows_of(unedited)):
        return None
    return (yield from symptom(loaded, unedited, case))


def show(effect: Symptom | None, view: View) -> b.Blocks:
    """The changed output and its loss, or why there is none."""
    case = opened(view)
    yield b.Title(view.t("cases.planted"))
    if case.plant is not None:
        yield b.Code((case.plant, symptom))
    if effect is None:
        absent = ("cases.not_planted",) if case.plant is None else ("cases.absent", case.needs)
        yield b.Prose(view.t(*absent))
        return
    if case.left:
        key = "cases.read_left" if effect.left else "cases.no_room"
        yield b.Prose(view.t(key, n=effect.left))
    if not effect.changed:
        yield b.Prose(view.t("cases.unchanged"))
    elif not view.trace.config.lm_head:
        yield b.Prose(_moved(view, effect))
    else:
        losses = losses_of(view, "cases.loss", effect, _names(view), height=220)
        yield b.Columns(([*_written(view, effect)], [losses]))
    if effect.tokens:
        yield b.Numbers(lambda: _numbers(view, effect))


def _moved(view: View, effect: Symptom) -> str:
    """The effect of the bug on the output vectors of a model without logits."""
    if math.isnan(effect.moved):
        return view.t("cases.vectors_nan")
    return view.t("cases.vectors_moved", moved=percent(effect.moved))


def _written(view: View, effect: Symptom) -> b.Blocks:
    if view.trace.config.generates:
        yield b.Note(view.t("cases.writes"))
        yield b.Prose(output_of(view, effect))
    if effect.tokens:  # a text of one token predicts none
        yield b.Prose(loss_of(view, effect))


def output_of(view: View, effect: Symptom) -> str:
    """Both outputs as one, the changes marked, or why there is none."""
    silent = np.isnan(effect.logprobs_after).any()
    key = "cases.writes_nothing" if silent else "cases.writes_end"
    return saying.marked_words(effect.words) or view.t(key)


def loss_of(view: View, effect: Symptom) -> str:
    """The loss without the bug and with it."""
    before, after = as_text(effect.loss_before), as_text(effect.loss_after)
    return view.t("cases.loss", stream=view.stream("tgt"), before=before, after=after)


def _names(view: View) -> tuple[str, str]:
    return view.t("cases.healthy"), view.t("cases.ill")


def losses_of(
    view: View, key: str, token_losses: TokenLosses, names: tuple[str, str], **more: Any
) -> b.Chart:
    """The loss of each token before and after, called by these names."""
    title = view.t("cases.token_loss")
    losses = -token_losses.logprobs_before, -token_losses.logprobs_after
    draw = partial(grouped, token_losses.tokens, losses, names, title=title, stream="tgt", **more)
    return b.Chart(key, draw, title)


def _numbers(view: View, effect: Symptom) -> dict[str, list[object]]:
    healthy, ill = _names(view)
    return {
        view.t("components.token_strip.label"): list(effect.tokens),
        healthy: [as_text(float(logprob)) for logprob in effect.logprobs_before],
        ill: [as_text(float(logprob)) for logprob in effect.logprobs_after],
    }


EXHIBIT = Exhibit(
    compute, show, inputs={"opened_case": lambda view: opened(view).id}, wait=Wait("cases.planting")
)
