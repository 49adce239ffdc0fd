"""A training: its curves, its heads on one row, its faults, its layers."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.escape import escape
from explorer.exhibits.picking import pick_one, titled
from explorer.exhibits.saying import axis_title
from explorer.exhibits.training import room
from explorer.exhibits.training.choices import TrainingChoices
from explorer.figures.training import Curve, over_steps, small_heads
from explorer.numbers import percent, signed
from explorer.training.runs import TrainingRun, Validation, WatchedHeads
from explorer.training.setup import LONGEST
from models.hooks import ROLES, Role


def show(begun: TrainingRun, view: View) -> b.Blocks:
    """Curves on the left, the heads of one row on the right; below, the faults and the layers."""
    run = room.run_of(view)
    scores = (begun if run is None or not run.scores else run).scores
    frames = (begun if run is None or not run.frames else run).frames
    left = (_loss(view, begun, run, scores), _accuracy(view, run, scores))
    frame, moment = _moment(view, run, frames)
    picked, role = pick_role(view, begun)
    right = (*moment, picked, *heads(view, begun, frame, role))
    sides = b.Columns((left, right), gap="medium")
    reading = b.Sentence("training", _reading(view, begun, run, scores[-1]))
    blocks: list[b.Block] = [reading, sides]
    about = begun.about
    if about["by_heart"]:
        blocks.append(b.Note(view.t("training.by_heart", count=about["n_rows"])))
    if about["too_long"]:
        words = view.t("training.too_long", count=about["too_long"], limit=LONGEST["own"])
        blocks.append(b.Note(words))
    if run is not None:
        blocks += [*_fault_cards(view, run, scores[-1]), *_layers(view, begun, run, frames)]
    yield b.Hero(blocks)
    yield from room.small_print(view)


def _fault_cards(view: View, run: TrainingRun, last: Validation) -> b.Blocks:
    """The faults of this training, and their symptoms."""
    recent = run.norm[-20:]
    values = {
        "loss": f"{last.loss:.3f}",
        "forced": percent(last.forced),
        "free": percent(last.free),
        "padded": signed(last.padded, 4),
        "norm": f"{sum(recent) / max(1, len(recent)):.2f}",
        "clip": f"{run.setup.clip:g}",
        "entropy": f"{run.frames[-1].entropy[-1]:.2f}" if run.frames else "",
    }
    for name in run.planted():
        title, what = (view.t(f"training.faults.{name}.{each}") for each in ("title", "what"))
        tells = view.t(f"training.faults.{name}.tells", **values)
        said = b.Prose(f":material/bug_report: **{title}** · {what}")
        yield b.Pane((said, b.Prose(tells)), framed=True)


def _reading(view: View, begun: TrainingRun, run: TrainingRun | None, score: Validation) -> str:
    """The reading above the picture, with its numbers."""
    loss = f"{score.loss:.2f}"
    if run is None or not run.step:
        return view.t(
            "training.reading.before",
            parameters=f"{begun.about['parameters']:,}",
            loss=loss,
            vocab=begun.about["vocab"],
            chance=f"{math.log(begun.about['vocab']):.2f}",
        )
    said = view.t(
        "training.reading.after",
        step=score.step,
        forced=percent(score.forced),
        free=percent(score.free),
        rows=percent(score.rows),
        loss=loss,
    )
    source, target = begun.about["shown"]
    key = "right" if score.written.split() == target.split() else "wrong"
    if not score.written:
        key = "silent"
    return f"{said} " + view.t(
        f"training.reading.{key}",
        source=escape(source),
        written=escape(score.written),
        target=escape(target),
    )


def _marks(view: View, run: TrainingRun | None) -> list[tuple[int, str]]:
    """The steps at which faults were injected and removed, with labels."""
    return [
        (step, ("+ " if on else "− ") + view.t(f"training.faults.{name}.short"))
        for step, name, on in ([] if run is None else run.faults)
    ]


def curves(
    view: View, found: Sequence[Curve], y_title: str, last: int, **more: Any
) -> Callable[..., b.Figure]:
    """The function that draws curves over the steps up to `last`."""
    x_title = view.t("training.curve.step")
    return partial(over_steps, found, x_title=x_title, y_title=y_title, last=last, **more)


def _loss(
    view: View, begun: TrainingRun, run: TrainingRun | None, scores: Sequence[Validation]
) -> b.Chart:
    found = [
        Curve(view.t("training.curve.held_out"), [s.step for s in scores], [s.loss for s in scores])
    ]
    if run is not None and run.loss:
        steps = range(1, len(run.loss) + 1)
        found.insert(0, Curve(view.t("training.curve.loss"), steps, run.loss))
    draw = curves(
        view,
        found,
        view.t("training.curve.nats"),
        room.shown_setup(view).steps,
        marks=_marks(view, run),
        level=(math.log(begun.about["vocab"]), view.t("training.curve.chance")),
    )
    return b.Chart("training.loss", draw, view.t("training.curve.loss_alt"))


def _accuracy(view: View, run: TrainingRun | None, scores: Sequence[Validation]) -> b.Chart:
    steps = [score.step for score in scores]
    found = [
        Curve(view.t("training.curve.forced"), steps, [score.forced for score in scores]),
        Curve(view.t("training.curve.free"), steps, [score.free for score in scores]),
    ]
    draw = curves(
        view,
        found,
        view.t("training.curve.right"),
        room.shown_setup(view).steps,
        marks=[(step, "") for step, _ in _marks(view, run)],
        percent=True,
        height=220,
    )
    return b.Chart("training.accuracy", draw, view.t("training.curve.accuracy_alt"))


def _moment(
    view: View, run: TrainingRun | None, frames: Sequence[WatchedHeads]
) -> tuple[WatchedHeads, tuple[b.Slider, ...]]:
    """The frame to show: the latest during training, later the chosen one.

    There is no slider during training: its moving end would be taken for a choice.
    """
    if len(frames) < 2 or (run is not None and run.is_live):
        return frames[-1], ()
    steps = [frame.step for frame in frames]
    wanted = view.choices(TrainingChoices).moment
    at = len(steps) - 1
    if wanted is not None:
        at = max((i for i, step in enumerate(steps) if step <= wanted), default=0)

    def change(step: int) -> b.Change:
        return b.choose(moment=None if step == steps[-1] else step)

    slider = room.steps_slider(
        "training.moment", view.t("training.moment"), steps, steps[at], change
    )
    return frames[at], (slider,)


def pick_role(view: View, *begun: TrainingRun) -> tuple[b.Pick, Role]:
    """The control for the kind of attention, among those that all these models have."""
    has = [{site["role"] for site in each.about["sites"]} for each in begun]
    roles = [role for role in ROLES if all(role in each for each in has)]
    now = view.state.site if view.state.site in roles else roles[-1]
    more = b.More(change=lambda kind: b.choose(elsewhere=True, site=kind), quiet=True)
    more |= {"said": "kinds.", "label": "place.kind"}
    return pick_one(view, "training.kind", roles, now, **more), now


def heads(
    view: View, begun: TrainingRun, frame: WatchedHeads, role: Role, run: TrainingRun | None = None
) -> tuple[b.Block, ...]:
    """All heads of one kind at one step; `run` is named if there are several."""
    sites = begun.about["sites"]
    chosen = [at for at, site in enumerate(sites) if site["role"] == role]
    query, key = sites[chosen[0]]["streams"]
    tokens, text = begun.about["tokens"], escape(begun.about["shown"][0])
    said, name = view.t("training.heads_note", step=frame.step, text=text), "training.heads"
    if run is not None:
        said = f"**{view.t('training.compare.run', number=run.number)}** · {said}"
        name = f"{name}.{run.number}"
    words = {
        "layer": view.t("place.layer"),
        "head": view.t("place.head"),
        "query": axis_title(view, "query", query),
        "key": axis_title(view, "key", key),
    }
    patterns = [frame.patterns[at] for at in chosen]
    draw = partial(small_heads, patterns, tokens[query], tokens[key], words=words)
    return b.Note(said), b.Chart(name, draw, view.t("training.heads_alt", step=frame.step))


def _layers(
    view: View, begun: TrainingRun, run: TrainingRun, frames: Sequence[WatchedHeads]
) -> Iterator[b.Columns]:
    """Two more charts: the gradient per block, and the entropy of heads per site."""
    if len(frames) < 2:
        return
    steps = [frame.step for frame in frames]
    norms = [
        Curve(
            f"{view.t(f'training.stacks.{stack}')} {layer + 1}",
            steps[1:],
            [frame.norms[at] for frame in frames[1:]],
        )
        for at, (stack, layer) in enumerate(begun.about["blocks"])
    ]
    entropies = [
        Curve(
            f"{view.words('kinds')[site['role']]} {site['layer'] + 1}",
            steps,
            [frame.entropy[at] for frame in frames],
        )
        for at, site in enumerate(begun.about["sites"])
    ]
    sides = (("norm", norms), ("entropy", entropies))
    yield b.Columns([_layer(view, run, *each) for each in sides], gap="medium")


def _layer(view: View, run: TrainingRun, name: str, found: Sequence[Curve]) -> tuple[b.Block, ...]:
    marks, y_title = _marks(view, run), view.t(f"training.curve.{name}")
    draw = curves(view, found, y_title, run.setup.steps, marks=marks, log_y=name == "norm")
    return titled(view, f"training.{name}", draw, view.t(f"training.{name}_title"))


EXHIBIT = Exhibit(
    room.untrained,
    show,
    inputs={"setup": room.shown_setup, "name": lambda view: "", "at": lambda view: (0, 0)},
    open=room.is_shown,
    wait=Wait("shell.working"),
)
