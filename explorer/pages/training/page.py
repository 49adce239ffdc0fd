"""Live training: watch a Transformer learn in a separate process."""

import streamlit as st

from explorer.exhibits.view import View
from explorer.pages.training import live, watching
from explorer.pages.training.asked import asked
from explorer.pages.training.choices import TrainingChoices
from explorer.pages.training.compared import draw_comparison
from explorer.pages.training.keep import keep
from explorer.pages.training.setting import before, choose
from explorer.pages.training.step import open_step
from explorer.problems import InputProblem
from explorer.training.learning import SetupTrainer
from explorer.training.rooms import Room
from explorer.training.runs import TrainingRun
from explorer.training.setup import Setup
from explorer.ui import controls
from explorer.ui.page import draw_page
from explorer.ui.parts import pick_part
from explorer.ui.problem import show_problem
from explorer.ui.stage import hero
from models.training.loop import Trainer


def render(view: View) -> None:
    """Draw the page."""
    draw_page(view, "training", _drawn)


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    room = watching.room_of(view)
    choices = view.choices(TrainingChoices)
    if choices.room and room is None:
        st.info(view.t("training.gone"), icon=":material/info:")
    setup = choose(view)
    if (problem := watching.problem()) is not None:
        show_problem(problem, view.lang)
    run = None if room is None else room.run(choices.shown)
    try:
        before(setup)
    except InputProblem as refused:
        show_problem(refused, view.lang)
        if run is None:
            return
    if room is not None and run is not None:
        live.status(view, room, run)
    part = pick_part(view, "training", TrainingChoices.parts)
    with hero():
        if part == "live":
            live.picture(view, run, setup)
        elif part == "opened":
            open_step(view, room, run, setup)
        elif part == "compared":
            draw_comparison(view, room)
        else:
            asked(view, room)
    if run is not None:
        keep(view, run)
    _small_print(view, room, run, setup)
    live.look_again(run)


def _small_print(view: View, room: Room | None, run: TrainingRun | None, setup: Setup) -> None:
    begun = before(setup if run is None else run.setup)
    scores = live.scores_of(begun, run)
    losses = run.loss if run is not None and run.loss else [begun.first["loss"]]
    n = len(losses)
    controls.small_print(
        view,
        "training",
        formula=(
            r"L = -\frac{1}{N}\sum_{t} \log p(y_t \mid y_{<t},\, x)",
            r"m \leftarrow \beta_1 m + (1-\beta_1)\,g, \quad v \leftarrow \beta_2 v + "
            r"(1-\beta_2)\,g^2, \quad w \leftarrow w - \eta\,"
            r"\frac{m/(1-\beta_1^t)}{\sqrt{v/(1-\beta_2^t)}+\epsilon}",
        ),
        code=(Trainer.backward, Trainer.descend, SetupTrainer.measure, SetupTrainer.frame),
        numbers=lambda: {
            view.t("training.curve.step"): [each.step for each in scores] + [*range(1, n + 1)],
            view.t("training.curve.held_out"): [f"{each.loss:.4f}" for each in scores] + [""] * n,
            view.t("training.curve.forced"): [f"{each.forced:.4f}" for each in scores] + [""] * n,
            view.t("training.curve.free"): [f"{each.free:.4f}" for each in scores] + [""] * n,
            view.t("training.curve.loss"): [""] * len(scores) + [f"{each:.4f}" for each in losses],
        },
    )
