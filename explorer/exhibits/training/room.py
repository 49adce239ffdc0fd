"""The user's training room: found by the name in the link, in the browser that created it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from explorer.engine.turns import waiting
from explorer.exhibits import View, block as b
from explorer.exhibits.links import State
from explorer.exhibits.training.choices import TrainingChoices
from explorer.problems import InputProblem
from explorer.training import opened
from explorer.training.learning import SetupTrainer
from explorer.training.rooms import ROOMS, Room
from explorer.training.runs import TrainingRun
from explorer.training.setup import Setup, check
from explorer.training.tasks import corpus
from models.training.loop import Trainer


def untrained(setup: Setup, name: str, at: tuple[int, ...]) -> TrainingRun:
    """The start of a training; see `training.opened`. Raises InputProblem."""
    return opened.untrained(setup, name, at, waiting)


def refusal(asked: Setup) -> InputProblem | None:
    """Why such a training cannot start."""
    try:
        check(asked, *corpus(asked, waiting).sizes)
    except InputProblem as problem:
        return problem
    return None


ASKED = {"asked": lambda view: view.choices(TrainingChoices).full_setup}
"""The input that is the setup of the next training."""


def run_of(view: View) -> TrainingRun | None:
    """The selected training, by default the newest."""
    choices = view.choices(TrainingChoices)
    runs = [run for run in choices.runs if choices.shown in (None, run.number)]
    return runs[-1] if runs else None


def filled(run: TrainingRun | None, begun: TrainingRun) -> TrainingRun:
    """A training, with the start of its model for what it does not have yet."""
    if run is None:
        return begun
    names = ("about", "scores", "frames", "opened")
    return replace(run, **{name: getattr(run, name) or getattr(begun, name) for name in names})


def shown_setup(view: View) -> Setup:
    """The setup of the selected training, else of the next."""
    run = run_of(view)
    return view.choices(TrainingChoices).full_setup if run is None else run.setup


START = {"setup": shown_setup, "name": lambda view: "", "at": lambda view: (0, 0)}
"""The inputs of `untrained`, for the usual weight."""


def is_shown(view: View) -> bool:
    """Whether there is anything to show: a training, or a setup that can be trained."""
    return run_of(view) is not None or refusal(shown_setup(view)) is None


def begin(view: View, setup: Setup) -> b.Change:
    """Start a training in the user's room."""

    def act(state: State) -> Mapping[str, Any]:
        assert view.viewer is not None
        room = state.of(TrainingChoices).find_room(view.viewer)
        try:
            room = room or ROOMS.open(view.viewer.browser())
        except OSError:
            return {"refused": InputProblem("training_no_room")}
        ROOMS.watch(room, view.viewer.session, view.viewer.is_here)
        try:
            run = ROOMS.start(room, setup)
        except InputProblem as problem:
            return {"own_room": room.name, "refused": problem}
        own = {"own_room": room.name, "room": room.name}
        return {**own, "shown": run.number, "moment": None}

    return b.Change(act)


def resume(view: View, run: TrainingRun, step: int, paused: bool) -> b.Change:
    """Continue an ended training after a saved step."""
    return _act(view, run, lambda room, run: ROOMS.again(room, run, step, paused), moment=None)


def order(view: View, run: TrainingRun, do: str, **values: Any) -> b.Change:
    """Send an order to the process of a training: see `Rooms.order`."""
    chosen = {} if do in ("fault", "open") else {"moment": None}
    return _act(view, run, lambda room, run: ROOMS.order(room, run, do, **values), **chosen)


def _act(
    view: View, run: TrainingRun, do: Callable[[Room, TrainingRun], None], **chosen: Any
) -> b.Change:
    """Do something to a training, of which the view has a copy, and make these choices."""

    def done(state: State) -> Mapping[str, Any]:
        room = state.of(TrainingChoices).find_room(view.viewer)
        now = None if room is None else room.run(run.number)
        if room is None or now is None:
            return {}
        try:
            do(room, now)
        except InputProblem as problem:
            return {**chosen, "refused": problem}
        return chosen

    return b.Change(done)


def small_print(view: View, run: TrainingRun) -> b.Blocks:
    """The loss and the optimizer as formulas, the code, and the curves as numbers."""
    loss = r"L = -\frac{1}{N}\sum_{t} \log p(y_t \mid y_{<t},\, x)"
    adamw = (
        r"m \leftarrow \beta_1 m + (1-\beta_1)\,g, \quad v \leftarrow \beta_2 v + "
        r"(1-\beta_2)\,g^2, \quad w \leftarrow w - \eta\,"
        r"\frac{m/(1-\beta_1^t)}{\sqrt{v/(1-\beta_2^t)}+\epsilon}"
    )
    yield b.Formula((loss, adamw), view.t("training.formula"))
    yield b.Code((Trainer.backward, Trainer.descend, SetupTrainer.measure, SetupTrainer.frame))
    yield b.Numbers(lambda: _numbers(view, run))


def _numbers(view: View, run: TrainingRun) -> dict[str, list[object]]:
    """The measurements, then the loss of each step."""
    assert run.opened is not None
    scores, losses = run.scores, run.loss or [run.opened["loss"]]
    none, n = [""] * len(scores), len(losses)
    on_rows = "nats" if run.about["by_heart"] else "held_out"
    measured = {on_rows: "loss", "forced": "forced", "free": "free"}
    return {
        view.t("training.curve.step"): [*(measure.step for measure in scores), *range(1, n + 1)],
        **{
            view.t("training.curve", name): [f"{getattr(measure, of):.4f}" for measure in scores]
            + [""] * n
            for name, of in measured.items()
        },
        view.t("training.curve.loss"): none + [f"{measure:.4f}" for measure in losses],
    }
