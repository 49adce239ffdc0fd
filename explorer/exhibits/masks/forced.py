"""The effect of changed masks under teacher forcing, on the words generated before."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from explorer.analysis.cases.symptom import TokenLosses
from explorer.exhibits import Exhibit, View, block as b, picking, saying
from explorer.exhibits.cases.planted import losses_of
from explorer.exhibits.masks.choices import MasksChoices
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.numerics import softmax
from explorer.runs.edits import Edit
from explorer.runs.interventions import edit_functions
from explorer.runs.rerun import require_same_model, rows_of, token_logprobs, written_tokens
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.hooks import LOGITS

N_NEXT = 6


@dataclass(frozen=True)
class Next:
    """One token that might come next, with its probability before and after."""

    token: str
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Forced(TokenLosses):
    """The tokens generated without edits, and their probabilities with them.

    `after[i]` are the most probable tokens after the first i: the best before and after the edits,
    sorted by probability with the edits.
    """

    after: tuple[tuple[Next, ...], ...]


def forced(loaded: LoadedModel, unedited: Trace, edits: Sequence[Edit]) -> Forced:
    """Read the words of a Trace made without edits again with `edits`.

    Raises ValueError for a Trace of another model.
    """
    require_same_model(loaded, unedited)
    written = written_tokens(unedited)
    rows = rows_of(unedited)
    changes = edit_functions(loaded.sites, edits, rows.src_valid, rows.tgt_valid)
    changed = run(loaded.model, rows, {LOGITS}, changes)[LOGITS][0].numpy()
    n = len(written)
    return Forced(
        tokens=tuple(loaded.str_tokens(written)),
        logprobs_before=token_logprobs(unedited.logits, written),
        logprobs_after=token_logprobs(changed, written),
        after=tuple(map(partial(_next, loaded), unedited.logits[:n], changed[:n])),
    )


def _next(loaded: LoadedModel, old: np.ndarray, new: np.ndarray) -> tuple[Next, ...]:
    before, after = softmax(old), softmax(new)
    best = dict.fromkeys([*(-after).argsort()[:N_NEXT], *(-before).argsort()[:2]])
    ids = [int(token) for token in best]
    return tuple(
        Next(shown, float(before[token]), float(after[token]))
        for token, shown in zip(ids, loaded.str_tokens(ids), strict=True)
    )


def is_offered(view: View) -> bool:
    """Whether there are edits, and tokens that they can change."""
    return bool(view.trace.edits and written_tokens(view.trace))


def is_open(view: View) -> bool:
    """Whether it is requested, or shown outside the app."""
    is_requested = view.choices(MasksChoices).effect == "forced" or not view.asks
    return is_requested and is_offered(view)


def show(comparison: Forced, view: View) -> b.Blocks:
    """The loss of each word under both masks, and the likeliest tokens after a beginning."""
    yield b.Title(view.t("masks.forced"))
    names = view.t("masks.right_masks"), view.t("masks.your_masks")
    ends = {"before": comparison.loss_before, "after": comparison.loss_after}
    said = view.t("masks.loss", **{name: f"{loss:.2f}" for name, loss in ends.items()})
    losses = (b.Sentence("forced", said), losses_of(view, "masks.loss", comparison, names))
    yield b.Columns((losses, _after(view, comparison)))
    yield b.Code((forced,))


def _after(view: View, result: Forced) -> tuple[b.Block, ...]:
    """The most probable next tokens after a prefix that the user selects."""
    steps = range(len(result.tokens))
    step = min(view.choices(MasksChoices).next_step, len(result.tokens) - 1)
    rows = [
        (saying.quoted(view, candidate.token), percent(candidate.before), percent(candidate.after))
        for candidate in result.after[step]
    ]
    more = b.More(said=partial(_place, view, result), label="masks.next", form="menu")
    return (
        picking.pick_one(view, f"masks.next.{len(steps)}", steps, step, "next_step", **more),
        b.Table(("", view.t("masks.right_masks"), view.t("masks.your_masks")), rows),
    )


def _place(view: View, result: Forced, step: int) -> str:
    """The place of a prediction: after a prefix, or at one token of a bidirectional model."""
    if view.trace.config.is_causal:
        return " ".join(view.before().tgt_str_tokens[: step + 1])
    return f"{step + 1}  {view.trace.tgt_str_tokens[step]}"


EXHIBIT = Exhibit(forced, show, open=is_open)
