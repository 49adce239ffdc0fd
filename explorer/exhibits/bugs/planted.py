"""The effect of a pitfall on the open model: the bug injected into every affected layer."""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from explorer.analysis.bugs import Symptom, symptom
from explorer.exhibits import Exhibit, View, Wait, block as b, saying
from explorer.exhibits.bugs.choices import BugsChoices
from explorer.exhibits.bugs.pitfall import as_text, chosen
from explorer.figures.curves import lines
from explorer.figures.paired import paired
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.runs.passes import Steps
from explorer.runs.rerun import rows_of
from explorer.runs.trace import Trace


def compute(loaded: LoadedModel, unedited: Trace, case: str) -> Steps[Symptom | None]:
    """The output with and without the bug; None if it cannot be injected into this model.

    Raises InputProblem.
    """
    pitfall = chosen(case)
    if pitfall.plant is None or not pitfall.fits(loaded.model, rows_of(unedited)):
        return None
    return (yield from symptom(loaded, unedited, pitfall))


def show(found: Symptom | None, view: View) -> b.Blocks:
    """The changed output and its loss, or why there is none."""
    pitfall = chosen(view.choices(BugsChoices).case)
    yield b.Title(view.t("bugs.planted"))
    if pitfall.plant is not None:
        yield b.Code((pitfall.plant, symptom))
    if found is None:
        absent = f"bugs.absent.{pitfall.needs}"
        yield b.Prose(view.t("bugs.not_planted" if pitfall.plant is None else absent))
        return
    if pitfall.left:
        key = "bugs.read_left" if found.left else "bugs.no_room"
        yield b.Prose(view.t(key, n=found.left))
    if not view.trace.config.lm_head:
        yield b.Prose(_moved(view, found))
    elif not found.changed:
        yield b.Prose(view.t("bugs.unchanged"))
    else:
        yield b.Columns(([*_written(view, found)], [_losses(view, found)]))
        yield from _by_left(view, found)
    if found.tokens:
        yield b.Numbers(lambda: _numbers(view, found))


def _moved(view: View, found: Symptom) -> str:
    """The effect of the bug on the output vectors of a model without logits."""
    if math.isnan(found.moved):
        return view.t("bugs.vectors_nan")
    if not found.changed:
        return view.t("bugs.vectors_same")
    return view.t("bugs.vectors_moved", moved=percent(found.moved))


def _written(view: View, found: Symptom) -> b.Blocks:
    if view.trace.config.generates:
        silent = np.isnan(found.logprobs_after).any()
        key = "bugs.writes_nothing" if silent else "bugs.writes_end"
        yield b.Note(view.t("bugs.writes"))
        yield b.Prose(saying.marked_words(found.words) or view.t(key))
    before, after = as_text(found.loss_before), as_text(found.loss_after)
    yield b.Prose(view.t("bugs.loss", stream=view.stream("tgt"), before=before, after=after))


def _names(view: View) -> tuple[str, str]:
    return view.t("bugs.healthy"), view.t("bugs.ill")


def _losses(view: View, found: Symptom) -> b.Chart:
    title = view.t("bugs.token_loss")
    losses = -found.logprobs_before, -found.logprobs_after
    draw = partial(
        paired, found.tokens, *losses, _names(view), title=title, stream="tgt", height=220
    )
    return b.Chart("bugs.loss", draw, title)


def _by_left(view: View, found: Symptom) -> Iterator[b.Chart]:
    """The loss by the number of PADs on the left, for bugs about left padding."""
    losses = np.array([[each.before, each.after] for each in found.by_left])
    if not len(losses) or not np.isfinite(losses).all():
        return
    draw = partial(
        lines,
        np.array([each.n for each in found.by_left]),
        losses.T,
        _names(view),
        **view.axes("bugs.pads_left", "bugs.token_loss"),
        height=240,
        points=True,
    )
    yield b.Chart("bugs.left", draw, view.t("bugs.pads_left"))


def _numbers(view: View, found: Symptom) -> dict[str, list[object]]:
    healthy, ill = _names(view)
    return {
        view.t("components.token_strip.label"): list(found.tokens),
        healthy: [as_text(float(each)) for each in found.logprobs_before],
        ill: [as_text(float(each)) for each in found.logprobs_after],
    }


EXHIBIT = Exhibit(compute, show, wait=Wait("bugs.working"))
