"""A training: its curves, its heads on one row, its faults, its layers."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.picking import pick_one, titled
from explorer.exhibits.saying import axis_title
from explorer.exhibits.training import room
from explorer.exhibits.training.choices import TrainingChoices
from explorer.figures.training import Curve, over_steps, small_heads
from explorer.numbers import percent, signed
from explorer.training.runs import TrainingRun, WatchedHeads
from models.hooks import ROLES, Role


def show(begun: TrainingRun, view: View) -> b.Blocks:
    """Curves on the left, the heads of one row on the right; below, the faults and the layers."""
    run = room.filled(room.run_of(view), begun)
    frame, moment = _moment(view, run)
    picked, role = pick_role(view, run)
    right = (*moment, picked, *heads(view, run, frame, role))
    sides = b.Columns((_measured(view, run), right), gap="medium")
    blocks: list[b.Block] = [b.Sentence("training", _reading(view, run)), sides]
    if run.about["by_heart"]:
        blocks.append(b.Note(view.t("training.by_heart", count=run.about["n_rows"])))
    if run.about["too_long"]:
        blocks.append(b.Note(view.t("training.too_long", count=run.about["too_long"])))
    yield b.Hero([*blocks, *_fault_cards(view, run), *_layers(view, run)])
    yield from room.small_print(view, run)


def _fault_cards(view: View, run: TrainingRun) -> b.Blocks:
    """The faults of this training, and their symptoms once measured."""
    recent, last = run.norm[-20:], run.scores[-1]
    since = {name: step for step, name, on in run.faults if on}
    norm = f"{sum(recent) / max(1, len(recent)):.2f}"
    values = {"padded": signed(last.padded, 4), "norm": norm, "clip": f"{run.setup.clip:g}"}
    for name in run.planted():
        title, what = (view.t("training.faults", name, key) for key in ("title", "what"))
        fault = [b.Prose(f":material/bug_report: **{title}** · {what}")]
        if last.step > since[name]:
            tells = view.t("training.faults", name, "tells", **values)
            fault.append(b.Prose(f"**{view.t('training.symptom')}** {tells}"))
        yield b.Pane(fault, framed=True)


def _reading(view: View, run: TrainingRun) -> str:
    """The reading above the picture, with its numbers."""
    score, vocab = run.scores[-1], run.about["vocab"]
    values = {"loss": f"{score.loss:.2f}", "chance": f"{math.log(vocab):.2f}", "vocab": vocab}
    if not run.step:
        values["parameters"] = f"{run.about['parameters']:,}"
        return view.t("training.reading.before", **values)
    shares = {name: percent(getattr(score, name)) for name in ("forced", "free", "rows")}
    source, target = map(escape, run.about["shown"])
    texts = {"source": source, "written": escape(score.written), "target": target}
    return view.t("training.reading.after", step=score.step, **shares, **texts)


def _marks(view: View, run: TrainingRun) -> list[tuple[int, str]]:
    """The steps at which faults were injected and removed, with labels."""
    return [
        (step, ("+ " if on else "− ") + view.t("training.faults", name, "short"))
        for step, name, on in run.faults
    ]


def curves(
    view: View, lines: Sequence[Curve], y_title: str, last: int, **more: Any
) -> Callable[..., b.Figure]:
    """The function that draws curves over the steps up to `last`."""
    x_title = view.t("training.curve.step")
    return partial(over_steps, lines, x_title=x_title, y_title=y_title, last=last, **more)


def _curves(
    view: View, run: TrainingRun, y_title: str, lines: Sequence[Curve], **more: Any
) -> Callable[..., b.Figure]:
    """The same for a run, with the steps of its faults; the title of y is at `training.curve`."""
    more = {"marks": _marks(view, run)} | more
    return curves(view, lines, view.t("training.curve", y_title), run.setup.steps, **more)


def _measured(view: View, run: TrainingRun) -> tuple[b.Chart, b.Chart]:
    """The loss of each batch and on the validation set, and both accuracies there."""
    words, at = view.words("training.curve"), [score.step for score in run.scores]
    on_rows = "nats" if run.about["by_heart"] else "held_out"
    held_out, forced, free = (
        Curve(words[name], at, [getattr(score, measure) for score in run.scores])
        for name, measure in ((on_rows, "loss"), ("forced", "forced"), ("free", "free"))
    )
    batches = [Curve(words["loss"], range(1, run.step + 1), run.loss)] if run.loss else []
    level = math.log(run.about["vocab"]), words["chance"]
    marks = [(step, "") for step, _ in _marks(view, run)]
    more: dict[str, Any] = {"marks": marks, "percent": True, "height": 220}
    loss = _curves(view, run, "nats", [*batches, held_out], level=level)
    accuracy = _curves(view, run, "right", [forced, free], **more)
    return (
        b.Chart("training.loss", loss, words["loss_alt"]),
        b.Chart("training.accuracy", accuracy, words["accuracy_alt"]),
    )


def _moment(view: View, run: TrainingRun) -> tuple[WatchedHeads, tuple[b.Slider, ...]]:
    """The frame to show: the latest during training, later the chosen one.

    There is no slider during training: its moving end would be taken for a choice.
    """
    frames = run.frames
    if len(frames) < 2 or run.is_live:
        return frames[-1], ()
    steps = [frame.step for frame in frames]
    wanted = view.choices(TrainingChoices).moment
    at = len(steps) - 1
    if wanted is not None:
        at = max((i for i, step in enumerate(steps) if step <= wanted), default=0)

    def change(step: int) -> b.Change:
        return b.choose(moment=None if step == steps[-1] else step)

    words = view.t("training.moment")
    return frames[at], (b.Slider("training.moment", words, steps, steps[at], change),)


def pick_role(view: View, *runs: TrainingRun) -> tuple[b.Pick, Role]:
    """The control for the kind of attention, among those that all these models have."""
    has = [{site["role"] for site in run.about["sites"]} for run in runs]
    roles = [role for role in ROLES if all(role in kinds for kinds in has)]
    now = view.state.site if view.state.site in roles else roles[-1]
    more = b.More(change=lambda kind: b.choose(elsewhere=True, site=kind), quiet=True)
    more |= {"said": "kinds.short", "label": "place.kind"}
    return pick_one(view, "training.kind", roles, now, **more), now


def heads(
    view: View, run: TrainingRun, frame: WatchedHeads, role: Role, numbered: bool = False
) -> tuple[b.Block, ...]:
    """All heads of one kind at one step; the run is named if it is one of several."""
    sites = run.about["sites"]
    chosen = [at for at, site in enumerate(sites) if site["role"] == role]
    query, key = sites[chosen[0]]["streams"]
    tokens, text = run.about["tokens"], escape(run.about["shown"][0])
    note, name = view.t("training.heads_note", step=frame.step, text=text), "training.heads"
    if numbered:
        note = f"**{view.t('training.compare.run', number=run.number)}** · {note}"
        name = f"{name}.{run.number}"
    words = {
        "layer": view.t("place.layer"),
        "head": view.t("place.head"),
        "query": axis_title(view, "query", query),
        "key": axis_title(view, "key", key),
    }
    patterns = [frame.patterns[at] for at in chosen]
    drawn = small_heads(patterns, tokens[query], tokens[key], words=words)
    panel = (view.t("training.heads_alt", step=frame.step), drawn)
    return b.Note(note), b.Matrices(name, (panel,), captioned=False)


def _layers(view: View, run: TrainingRun) -> Iterator[b.Columns]:
    """Two more charts: the gradient per block, and the entropy of heads per site."""
    frames = run.frames
    if len(frames) < 2:
        return
    kinds = view.words("kinds")
    blocks = [(view.t("training.stacks", stack), layer) for stack, layer in run.about["blocks"]]
    sites = [(kinds[site["role"]], site["layer"]) for site in run.about["sites"]]
    # A fresh model has no gradients yet.
    sides = (("norm", "norms", blocks, frames[1:]), ("entropy", "entropy", sites, frames))
    columns = []
    for name, measure, named, shown in sides:
        steps = [frame.step for frame in shown]
        lines = [
            Curve(f"{stack} {layer + 1}", steps, [getattr(frame, measure)[at] for frame in shown])
            for at, (stack, layer) in enumerate(named)
        ]
        draw = _curves(view, run, name, lines, log_y=name == "norm")
        columns.append(titled(view, f"training.{name}", draw, view.t("training.titles", name)))
    yield b.Columns(columns, gap="medium")


EXHIBIT = Exhibit(
    room.untrained, show, inputs=room.START, open=room.is_shown, wait=Wait("shell.working")
)
