"""One training step in detail: the batch, the loss of each token, and the update of one weight."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.picking import pick_one
from explorer.exhibits.training import room
from explorer.exhibits.training.choices import TrainingChoices
from explorer.figures.training import token_losses
from explorer.numbers import digits
from explorer.training.runs import TrainingRun

MOST_ROWS = 4
"""Most sequences with source and input shown."""
Index = tuple[int, ...]


def show(begun: TrainingRun, view: View) -> b.Blocks:
    """The latest recorded step, else the first step of the setup."""
    filled = room.filled(room.run_of(view), begun)
    assert filled.opened is not None
    yield b.Hero((*_told(view, filled.opened), *_below(view, begun)))
    yield from room.small_print(view, filled)


def _below(view: View, begun: TrainingRun) -> b.Blocks:
    """The choice of a weight, and how to open the next step."""
    run, (name, at) = room.run_of(view), weight_of(view, begun)
    yield b.Row(tuple(_pick_weight(view, begun.about["weights"], name, at)))
    if run is not None and run.state == "paused" and not run.diverged:
        words = view.t("training.opened.next")
        change = room.order(view, run, "open", name=name, at=list(at))
        yield b.Button("training.open_next", words, change, "skip_next", kind="primary")
    if run is None or run.opened is None:
        yield b.Note(view.t("training.opened.fresh"))


def weight_of(view: View, begun: TrainingRun) -> tuple[str, Index]:
    """The chosen parameter and an index into it; the link has both, as `NAME~3.4`."""
    name, at = parse(view.choices(TrainingChoices).weight)
    shapes = begun.about["weights"]
    if name not in shapes and begun.opened is not None:
        name = begun.opened["name"]
    both = zip((*at, 0, 0), shapes[name], strict=False)
    return name, tuple(min(index, size - 1) for index, size in both)


def _asked(view: View) -> tuple[str, Index]:
    """The weight to open in the first step; the usual one if another step is shown."""
    run, chosen = room.run_of(view), view.choices(TrainingChoices).weight
    is_usual = not chosen or (run is not None and run.opened)
    return ("", (0, 0)) if is_usual else parse(chosen)


def _pick_weight(
    view: View, shapes: Mapping[str, Index], name: str, at: Index
) -> Iterator[b.Control]:
    more = b.More(label="training.opened.weight", said=str, form="menu", width=340)
    more["change"] = lambda picked: _choose(picked, (0,) * len(shapes[picked]))
    yield pick_one(view, "training.weight", list(shapes), name, **more)
    for axis, size in enumerate(shapes[name]):
        yield b.Slider(
            f"training.weight.{axis}",
            view.t("training.opened.column" if axis else "training.opened.row"),
            b.Span(0, size - 1),
            at[axis],
            partial(_move, name, at, axis),
            typed=True,
            display=b.Display(110),
        )


def _move(name: str, at: Index, axis: int, index: int) -> b.Change:
    return _choose(name, (*at[:axis], index, *at[axis + 1 :]))


def _choose(name: str, at: Index) -> b.Change:
    return b.choose(weight=f"{name}~{'.'.join(map(str, at))}")


def parse(text: str) -> tuple[str, Index]:
    """Parse a parameter's name and an index into it from a link."""
    name, _, place = text.partition("~")
    numbers = [part for part in place.split(".") if part.isascii() and part.isdecimal()]
    return name, tuple(int(part[:6]) for part in numbers)


def _told(view: View, told: Mapping[str, Any]) -> b.Blocks:
    place = f"`{told['name']}[{', '.join(map(str, told['at']))}]`"
    values = {name: digits(told[name]) for name in ("grad", "before", "after")}
    words = view.t("training.opened.reading", step=told["step"], place=place, **values)
    yield b.Sentence("training-opened", words)
    yield from _way(view, told)
    yield b.Fold(view.t("training.opened.batch"), tuple(_batch(view, told)), inline=True)


def _batch(view: View, told: Mapping[str, Any]) -> b.Blocks:
    """The model's input, and the loss of every label."""
    labels, names = told["labels"], ("source", "read", "labels")
    counts = {"rows": told["n_in_batch"], "labels": told["n_labels"], "shown": len(labels)}
    yield b.Note(view.t("training.opened.counts", **counts))
    title, x_title = view.t("training.curve.nats"), view.t("training.opened.position")
    drawn = token_losses(labels, told["losses"], title=title, x_title=x_title)
    panel = (view.t("training.opened.losses_alt"), drawn)
    yield b.Matrices("training.token_losses", (panel,), captioned=False)
    rows = [
        tuple(" ".join(map(escape, told[name][at])) for name in names)
        for at in range(min(MOST_ROWS, len(labels)))
    ]
    yield b.Table([view.t("training.opened", name) for name in names], rows, "lll")


def _way(view: View, told: Mapping[str, Any]) -> b.Blocks:
    """One weight: its gradient, moments and update, by torch and by the formulas."""
    clip = told["clip"] / max(told["norm"], told["clip"])
    formulas, was, now = told["adamw"], told["moments_before"], told["moments_after"]
    lines: dict[str, tuple[float | None, float | None]] = {
        "grad": (told["grad"], told["formula"]),
        "norm": (told["norm"], None),
        "clipped": (told["clipped"], told["grad"] * clip),
        "rate": (told["rate"], None),
    }
    if formulas is not None:
        lines |= {
            "m_before": (was[0], None),
            "v_before": (was[1], None),
            "m_after": (now[0], formulas["m"]),
            "v_after": (now[1], formulas["v"]),
            "m_hat": (None, formulas["m_hat"]),
            "v_hat": (None, formulas["v_hat"]),
        }
    lines["before"] = (told["before"], None)
    lines["after"] = (told["after"], None if formulas is None else formulas["after"])
    rows = [
        (
            view.t("training.opened", name),
            *("" if value is None else digits(value) for value in both),
        )
        for name, both in lines.items()
    ]
    yield b.Table(("", "PyTorch", view.t("training.opened.by_formula")), rows)
    if formulas is None:
        yield b.Note(view.t("training.opened.muon"))


EXHIBIT = Exhibit(
    room.untrained,
    show,
    inputs={
        "setup": room.shown_setup,
        "name": lambda view: _asked(view)[0],
        "at": lambda view: _asked(view)[1],
    },
    open=room.is_shown,
    wait=Wait("shell.working"),
)
