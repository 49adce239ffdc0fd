"""Beyond the training length: shifted positions, longer toy sequences, and a long natural text."""

import numpy as np
import streamlit as st

from explorer.analysis.positions.beyond import Beyond, beyond
from explorer.analysis.positions.length import (
    N_ROWS,
    ByLength,
    Toy,
    by_length,
    most_shift,
    shift_losses,
    toy_of,
)
from explorer.engine import cache
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.numbers import share
from explorer.pages.positions import cached
from explorer.pages.positions.code import positions_at
from explorer.pages.positions.natural import natural
from explorer.ui import controls
from models.positions import POSITIONS

BEYOND = 6
"""Largest excess length, in letters, at which the toy models are tested."""


def longer(view: View) -> None:
    """The loss by start position, the accuracy of toy models by length, and a natural text."""
    found = _shifted(view)
    toys = _toys(view)
    story = natural(view)
    code: list[object] = [shift_losses] if found[0] else []
    code += [by_length] * bool(toys) + [beyond] * (story is not None)
    if not code:
        return
    controls.small_print(
        view,
        "positions",
        formula=(
            r"\text{loss}(s) = -\frac1n \sum_i \log p(w_i \mid \text{positions} + s)",
            r"\text{perplexity} = e^{\,\text{loss}}",
        ),
        code=(*code, *positions_at(view, "tgt")),
        numbers=lambda: _numbers(view, found, toys, story),
        explained="positions.length_formula",
    )


def _shifted(view: View) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
    """The mean loss of the output if the sequence started at a later position."""
    trace = view.trace
    rows = {"src": trace.src_tokens, "tgt": trace.tgt_tokens}
    most = most_shift(view.loaded, max(map(len, rows.values())))
    curves: dict[str, np.ndarray] = {}
    shifts: tuple[int, ...] = ()
    st.markdown(f"**{view.t('positions.begin_later')}**")
    with st.spinner(view.t("shell.working")):
        if trace.src_tokens:
            shifts, curves["src"] = cached.shift_losses(view.run, "src", most)
        shifts, curves["tgt"] = cached.shift_losses(view.run, "tgt", most)
    if not np.isfinite(curves["tgt"]).all():
        why = "positions.no_loss" if trace.predicts is None else "positions.nothing_written"
        st.info(view.t(why), icon=":material/lightbulb:")
        return (), {}
    figure = lines(
        np.array(shifts),
        np.stack(list(curves.values())),
        [view.t("positions.begin", stream=view.stream(stream)) for stream in curves],
        x_title=view.t("positions.begins_at"),
        y_title=view.t("positions.loss"),
        height=320,
        dark=view.dark,
    )
    figure["layout"]["yaxis"]["rangemode"] = "tozero"
    controls.chart(figure, "positions.begin_later", alt=view.t("positions.begin_later"))
    worst = max(curves, key=lambda stream: float(np.ptp(curves[stream])))
    spread = float(np.ptp(curves[worst]))
    at = int(np.abs(curves[worst] - curves[worst][0]).argmax())
    key = f"positions.read_flat_{_acts(view)}" if spread < 0.005 else "positions.read_shift"
    controls.reading(
        "length",
        view.t(
            key,
            before=f"{curves[worst][0]:.2f}",
            after=f"{curves[worst][at]:.2f}",
            shift=shifts[at],
            stream=view.stream(worst),
        ),
    )
    return shifts, curves


def _acts(view: View) -> str:
    """Where the positions of this model act; "adds", "turns", "biases" or "nothing"."""
    return POSITIONS[view.loaded.config.positions].acts


def _toys(view: View) -> dict[str, tuple[Toy, ByLength]]:
    """The accuracy of this shelf's toy models by sequence length."""
    toys = {name: toy for name in cache.models() if (toy := toy_of(name)) is not None}
    if not toys:
        return {}
    longest = max(toy.longest for toy in toys.values())
    lengths = tuple(range(2, longest + BEYOND + 1))
    st.markdown(f"**{view.t('positions.toys')}**")
    shortest = min(toy.shortest for toy in toys.values())
    note = {"shortest": shortest, "longest": longest, "rows": N_ROWS}
    st.caption(view.t("positions.toys_note", **note))
    found: dict[str, ByLength] = {}
    bar = st.empty()
    for at, name in enumerate(toys):
        bar.progress(at / len(toys), view.t("positions.toys_working", name=name))
        found[name] = cached.by_length(name, lengths)
    bar.empty()
    figure = lines(
        np.array(lengths),
        100 * np.stack([each.exact for each in found.values()]),
        list(found),
        x_title=view.t("positions.row_length"),
        y_title=view.t("positions.rows_right"),
        marked_x=longest + 0.5,
        height=300,
        dark=view.dark,
    )
    controls.chart(figure, "positions.toys", alt=view.t("positions.toys"))
    within = np.array(lengths) <= longest
    controls.reading(
        "toys",
        view.t(
            "positions.read_toys",
            within=share(float(np.mean([f.exact[within] for f in found.values()]))),
            beyond=share(float(np.mean([f.exact[-1] for f in found.values()]))),
            letters=share(float(np.mean([f.letters[-1] for f in found.values()]))),
            longest=longest,
            most=lengths[-1],
        ),
    )
    return {name: (toys[name], found[name]) for name in found}


def _numbers(
    view: View,
    shifted: tuple[tuple[int, ...], dict[str, np.ndarray]],
    toys: dict[str, tuple[Toy, ByLength]],
    story: Beyond | None,
) -> dict[str, list[object]]:
    shifts, curves = shifted
    columns: dict[str, list[object]] = {view.t("positions.begins_at"): list(shifts)}
    for stream, losses in curves.items():
        columns[view.t("positions.begin", stream=view.stream(stream))] = np.round(
            losses, 4
        ).tolist()
    if toys:
        columns[view.t("positions.row_length")] = list(next(iter(toys.values()))[1].lengths)
    for name, (_, found) in toys.items():
        columns[name] = np.round(found.exact, 3).tolist()
    if story is not None:
        middles, (whole, windowed) = story.curves
        columns[view.t("positions.natural_axis")] = middles.tolist()
        columns[view.t("positions.natural_whole")] = np.round(whole, 3).tolist()
        name = view.t("positions.natural_windowed", window=story.window)
        columns[name] = np.round(windowed, 3).tolist()
    rows = max(map(len, columns.values()))
    return {name: [*column, *[None] * (rows - len(column))] for name, column in columns.items()}
