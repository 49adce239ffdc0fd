"""The loss of the same tokens if the sequence began at a later position, which may not occur in
training."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from explorer.analysis.positions.changes import MOST_SHIFT, PositionChange, position_functions
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import titled
from explorer.exhibits.positions.opening import opening, positions_at
from explorer.figures.curves import lines
from explorer.library import LoadedModel
from explorer.runs.rerun import rerun, token_logprobs, written_tokens
from explorer.runs.trace import Trace
from models.hooks import LOGITS, Edits
from models.rows import Stream

SHIFTS = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, MOST_SHIFT)


def shift_losses(
    loaded: LoadedModel, traced: Trace, stream: Stream, shifts: Sequence[int] = SHIFTS
) -> Float[np.ndarray, " shift"]:
    """The mean loss of the written tokens if the sequence began at each of these positions.

    Words, order and length are unchanged. NaN if nothing was written.
    """
    written, losses = written_tokens(traced), []
    for shift in shifts:
        moved = Edits(position_functions(loaded, stream, PositionChange("shift", shift)))
        logits = rerun(loaded, traced, {LOGITS}, moved)[LOGITS][0].numpy()
        losses.append(-token_logprobs(logits, written).mean() if len(written) else np.nan)
    return np.array(losses)


def most_shift(loaded: LoadedModel, n: int) -> int:
    """The largest shift of `n` tokens: learned positions end at n_ctx, others do not."""
    longest = loaded.config.longest
    return MOST_SHIFT if longest is None else max(0, longest - n)


@dataclass(frozen=True, eq=False)
class Shifted:
    """The mean loss for each of the `shifts`, by the stream that is shifted."""

    shifts: tuple[int, ...]
    losses: dict[Stream, np.ndarray]


def compute(loaded: LoadedModel, trace: Trace) -> Shifted:
    """The losses at each starting position; NaN if nothing was generated."""
    most = most_shift(loaded, max(len(trace.src_tokens), len(trace.tgt_tokens)))
    shifts = tuple(shift for shift in SHIFTS if shift <= most)
    streams: tuple[Stream, ...] = ("src", "tgt") if trace.src_tokens else ("tgt",)
    return Shifted(
        shifts, {stream: shift_losses(loaded, trace, stream, shifts) for stream in streams}
    )


def show(shifted: Shifted, view: View) -> b.Blocks:
    """The loss by start position."""
    yield from opening(view)
    shifts, curves = shifted.shifts, shifted.losses
    if not np.isfinite(curves["tgt"]).all():
        why = "positions.nothing_written" if view.loaded.config.lm_head else "positions.no_loss"
        yield b.Title(view.t("positions.begin_later"))
        yield b.Hint(view.t(why))
        return
    names = [view.t("positions.begin", stream=view.stream(stream)) for stream in curves]
    titles = view.axes("positions.begins_at", "positions.loss")
    losses = np.stack(list(curves.values()))
    draw = partial(lines, np.array(shifts), losses, names, from_zero=True, **titles)
    yield from titled(view, "positions.begin_later", draw)
    ends = {"low": f"{losses.min():.2f}", "high": f"{losses.max():.2f}"}
    yield b.Sentence("length", view.t("positions.read_shift", count=len(shifts), **ends))
    yield b.Formula.of(
        view.t("positions.length_formula"),
        r"\text{loss}(s) = -\frac1n \sum_i \log p(w_i \mid \text{positions} + s)",
    )
    yield b.Code((shift_losses, *positions_at(view, "tgt")))
    columns = dict(zip(names, losses.round(4).tolist(), strict=True))
    yield b.Numbers(lambda: {titles["x_title"]: list(shifts), **columns})


EXHIBIT = Exhibit(compute, show)
