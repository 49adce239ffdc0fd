"""Pitfalls: common mistakes, run live, each next to the correct code."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np

from explorer.analysis.bugs import BY_ID, PITFALLS, Demonstration, Figure, MatrixPair, Pitfall
from explorer.analysis.bugs.card import Group
from explorer.components.mask_matrix import pack_mask_matrix
from explorer.exhibits import Exhibit, View, block as b, saying
from explorer.exhibits.bugs.choices import BugsChoices
from explorer.exhibits.bugs.formulas import FORMULAS
from explorer.exhibits.picking import pick_group, pick_one
from explorer.figures.bugs import suspect
from explorer.figures.paired import paired
from explorer.figures.positions.encoding import table as position_table
from explorer.numbers import digits
from explorer.runs.trace import Trace


def chosen(case: str) -> Pitfall:
    """The open pitfall."""
    return BY_ID[case] if case else PITFALLS[0]


def compute(unedited: Trace, case: str) -> tuple[Demonstration, Trace]:
    """The effect of the wrong lines; without the user's edits they are the only mistake."""
    return chosen(case).demonstrate(unedited), unedited


def show(answer: tuple[Demonstration, Trace], view: View) -> b.Blocks:
    """Pictures of the wrong and the right result, the lines, and the numbers."""
    pitfall, (shown, traced) = chosen(view.choices(BugsChoices).case), answer
    yield from _pick(view, pitfall)
    yield b.Hero(
        (
            b.Title(view.t(pitfall.title_key), large=True),
            b.Sentence("bugs", view.t(pitfall.symptom_key)),
            *_pictures(view, shown, traced),
        )
    )
    yield _lines(view, pitfall)
    head = ("", view.t("bugs.wrong"), view.t("bugs.right"))
    yield b.Table(
        head,
        [(_label(view, each), as_text(each.wrong), as_text(each.right)) for each in shown.figures],
    )
    yield from _tried(view, pitfall, shown)
    yield b.Columns(
        (
            [b.Prose(f"**{view.t('bugs.why_silent')}** {view.t(pitfall.silent_key)}")],
            [b.Prose(f"**{view.t('bugs.instead')}** {view.t(pitfall.right_key)}")],
        )
    )
    lines = zip(("wrong", "right"), FORMULAS[pitfall.id], strict=True)
    yield b.Formula(
        tuple(rf"\text{{{name}}}:\quad {line}" for name, line in lines),
        view.t(f"bugs.formulas.{pitfall.group}"),
    )
    yield b.Code((pitfall.demonstrate, pitfall.wrong, pitfall.right))
    yield b.Numbers(lambda: _numbers(view, shown))


def _pick(view: View, pitfall: Pitfall) -> b.Blocks:
    groups: dict[str, list[str]] = {name: [] for name in get_args(Group)}
    for each in PITFALLS:
        groups[each.group].append(each.id)
    yield pick_group(view, "bugs.group", groups, pitfall.group, lambda case: b.choose(case=case))
    cases = groups[pitfall.group]
    names = {case: view.t(BY_ID[case].title_key) for case in cases}
    yield pick_one(view, "bugs.case", cases, pitfall.id, said=names.__getitem__, quiet=True)


def _lines(view: View, pitfall: Pitfall) -> b.Columns:
    """The wrong and the right lines: the functions that run for this page."""
    wrong = b.Title(f":red[:material/close:] {view.t('bugs.wrong')}")
    right = b.Title(f":material/check: {view.t('bugs.right')}")
    return b.Columns(
        (
            (wrong, b.Verbatim(pitfall.wrong_source, "python")),
            (right, b.Verbatim(pitfall.right_source, "python")),
        )
    )


def _pictures(view: View, shown: Demonstration, traced: Trace) -> b.Blocks:
    """Wrong and right side by side as matrices; a single row as pairs of bars."""
    own = "bugs.own_fresh" if shown.fresh else "bugs.own"
    yield b.Note(view.t(own if shown.own else "bugs.fixed"))
    picture = shown.picture
    if picture is None:
        wrong = np.array([figure.wrong for figure in shown.figures])
        right = np.array([figure.right for figure in shown.figures])
        yield from _bars(view, [_label(view, each) for each in shown.figures], wrong, right)
    elif picture.hidden is None and picture.right.dtype != np.bool_ and len(picture.right) == 1:
        yield from _bars(view, shown.columns, picture.wrong[0], picture.right[0])
    else:
        axes = _axes(view, shown, traced, picture)
        yield b.Columns([_matrix(view, name, picture, axes) for name in ("wrong", "right")])


def _bars(
    view: View, labels: Sequence[str], wrong: np.ndarray, right: np.ndarray
) -> Iterator[b.Chart]:
    numbers = np.concatenate([wrong, right])
    if len(labels) == 0 or not (np.abs(numbers) < 1e5).all():
        return  # limits of a type, or NaN: shown in the table only
    names = (view.t("bugs.wrong"), view.t("bugs.right"))
    draw = partial(paired, labels, wrong, right, names, title=view.t("bugs.value"))
    yield b.Chart("bugs.bars", draw, view.t("bugs.alt"))


def _axes(view: View, shown: Demonstration, traced: Trace, picture: MatrixPair) -> dict[str, Any]:
    """The axis labels: the sentence's tokens if the picture has any, else numbers."""
    n_row, n_column = picture.right.shape
    if shown.site:
        return {
            "query_tokens": traced.query_tokens(shown.site)[-n_row:],
            "key_tokens": traced.key_tokens(shown.site),
            **saying.site_titles(view, traced.site(shown.site)),
        }
    square = n_row == len(shown.columns)  # column labels also apply to rows
    return {
        "query_tokens": shown.columns if square else [str(row + 1) for row in range(n_row)],
        "key_tokens": shown.columns or [str(column + 1) for column in range(n_column)],
        "query_title": view.t("figures.heatmap.query"),
        "key_title": view.t("figures.heatmap.key"),
    }


def _matrix(
    view: View, name: str, picture: MatrixPair, axes: dict[str, Any]
) -> tuple[b.Block, ...]:
    """One of the two matrices: a pattern, a mask, or a table of numbers."""
    matrix = picture.wrong if name == "wrong" else picture.right
    key, title = f"bugs.{name}", view.t(f"bugs.{name}")
    if picture.head is not None:
        title = view.t("bugs.in_head", which=title, head=picture.head + 1)
    if matrix.dtype == np.bool_ and picture.hidden is None:
        pack = partial(
            pack_mask_matrix,
            matrix,
            (~matrix).astype(np.uint8),
            title=title,
            rules=[view.t("bugs.unseen")],
            words=view.words("components.seen"),
            **axes,
        )
        return b.Title(title), b.Canvas(key, "mask_matrix", lambda file: pack(file=file))
    if picture.hidden is None:
        draw = partial(position_table, matrix, words=view.words("figures.positions"))
    else:
        hidden, words = view.t("bugs.hidden"), view.words("figures.heatmap")
        draw = partial(suspect, matrix, picture.hidden, hidden_word=hidden, words=words, **axes)
    return b.Title(title), b.Chart(key, draw, title)


def _label(view: View, figure: Figure) -> str:
    return view.t(figure.label_key, of=figure.of)


def _tried(view: View, pitfall: Pitfall, shown: Demonstration) -> b.Blocks:
    """Which cases raise an error, and in which the bug is silent."""
    if not shown.tried:
        return
    names = (f"bugs.tried.{pitfall.id}", "bugs.wrong", "bugs.right")
    rows = [
        (each.of, _outcome(view, each.wrong), _outcome(view, each.right)) for each in shown.tried
    ]
    yield b.Table([view.t(name) for name in names], rows, "lll")
    loud = sum(bool(each.wrong) for each in shown.tried)
    counts = {"loud": loud, "quiet": len(shown.tried) - loud}
    yield b.Prose(view.t("bugs.tried_count", n=len(shown.tried), **counts))


def _outcome(view: View, error: str) -> str:
    return f"`{error}`" if error else view.t("bugs.runs")


def as_text(value: float) -> str:
    """A number of any size, or NaN, as text."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) < 1e-6:  # rounding
        return "0"
    if float(value).is_integer() and 0 < value < 1e6:  # a count
        return f"{value:,.0f}"
    return digits(value)


def _numbers(view: View, shown: Demonstration) -> dict[str, list[object]]:
    return {
        view.t("bugs.value"): [_label(view, each) for each in shown.figures],
        view.t("bugs.wrong"): [as_text(each.wrong) for each in shown.figures],
        view.t("bugs.right"): [as_text(each.right) for each in shown.figures],
    }


EXHIBIT = Exhibit(compute, show)
