"""A running training: its state and controls, its curves, its heads, its layers."""

import math
from collections.abc import Sequence

import streamlit as st

from explorer.components import pulse
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.figures.training.curves import Curve, over_steps
from explorer.figures.training.heads import small_heads
from explorer.numbers import percent, signed
from explorer.pages.training import watching
from explorer.pages.training.choices import TrainingChoices
from explorer.pages.training.setting import before
from explorer.training.before import Before
from explorer.training.rooms import ROOMS, Room
from explorer.training.runs import ENDED, TrainingRun, Validation, WatchedHeads
from explorer.training.setup import AT_START, FAULTS, LONGEST, Setup
from explorer.ui import controls, session
from models.hooks import ROLES, Role

INTERVAL = 1.0
"""Polling interval of a running training in seconds."""


def status(view: View, room: Room, run: TrainingRun) -> None:
    """The state of the training, and the buttons that control it."""
    ahead = ROOMS.ahead(room, run) if run.state == "waiting" else 0
    words = view.t(f"training.state.{run.state}", step=run.step, total=run.setup.steps, ahead=ahead)
    if run.is_stopping:
        words = view.t("training.stopping", step=run.step)
    with st.container(horizontal=True, vertical_alignment="center", key="training-steer"):
        if len(room.runs) > 1:
            _pick_run(view, room, run)
        st.markdown(words)
        _buttons(view, room, run)
    if run.diverged:
        st.error(
            view.t(f"training.diverged.{run.diverged}", step=run.step),
            icon=":material/trending_up:",
        )


def _pick_run(view: View, room: Room, run: TrainingRun) -> None:
    """The control for the user's training to show."""
    with st.container(width=150):
        controls.pick(
            view.t("training.which"),
            room.runs,
            run,
            "training.which",
            lambda picked: session.change(shown=picked.number, moment=None),
            format_func=lambda each: view.t("training.compare.run", number=each.number),
            label_visibility="collapsed",
        )


def _buttons(view: View, room: Room, run: TrainingRun) -> None:
    def button(name: str, icon: str, do: str = "") -> None:
        st.button(
            view.t(f"training.{name}"),
            key=f"training.{name}",
            icon=f":material/{icon}:",
            on_click=_do,
            args=(room, run, do or name),
        )

    if run.is_stopping:
        return
    if run.state == "running":
        button("pause", "pause")
    if run.state == "paused" and not run.diverged:
        button("go", "play_arrow")
        button("step", "skip_next")
    if run.state in ("running", "paused", "starting", "waiting"):
        button("stop", "stop")
    if run.state in ENDED and run.state != "done" and run.step in run.kept:
        st.button(
            view.t("training.go"),
            key="training.go",
            icon=":material/play_arrow:",
            on_click=watching.resume,
            args=(run, run.step, False),
        )
    _wind_back(view, room, run)
    if run.state in ("running", "paused") and not run.diverged:
        _plant(view, room, run)


def _do(room: Room, run: TrainingRun, what: str) -> None:
    ROOMS.order(room, run, what)
    session.change(moment=None)


def _wind_back(view: View, room: Room, run: TrainingRun) -> None:
    """The control to rewind to a saved step; a new process continues if the old one has ended."""
    steps = sorted(step for step in run.kept if step < run.step or run.diverged)
    if not steps or run.state not in (*ENDED, "paused"):
        return
    with st.popover(view.t("training.back"), icon=":material/fast_rewind:"):
        at = st.select_slider(view.t("training.back_to"), steps, steps[-1], key="training.back_at")
        if run.state in ENDED:
            click, args = watching.resume, (run, at, True)
        else:
            click, args = _back, (room, run, at)  # type: ignore[assignment]
        st.button(view.t("training.back_do"), key="training.back_do", on_click=click, args=args)


def _back(room: Room, run: TrainingRun, step: int) -> None:
    ROOMS.order(room, run, "back", step=step, faults=list(run.planted(step)))
    session.change(moment=None)


def _plant(view: View, room: Room, run: TrainingRun) -> None:
    """Controls to inject a fault, or to remove it."""
    planted = run.planted()
    with st.popover(view.t("training.fault_now"), icon=":material/bug_report:"):
        for name in FAULTS:
            if name in AT_START:
                continue
            is_in = name in planted
            st.button(
                view.t(f"training.faults.{name}.title"),
                key=f"training.fault.{name}",
                type="primary" if is_in else "secondary",
                icon=":material/check:" if is_in else ":material/add:",
                on_click=_toggle,
                args=(room, run, name, not is_in),
            )


def _toggle(room: Room, run: TrainingRun, name: str, on: bool) -> None:
    ROOMS.order(room, run, "fault", name=name, on=on)


def picture(view: View, run: TrainingRun | None, setup: Setup) -> None:
    """The hero: curves on the left, the heads of one row on the right."""
    begun = before(setup if run is None else run.setup)
    frames = _frames(begun, run)
    scores = scores_of(begun, run)
    with controls.reading_first():
        controls.reading("training", reading(view, begun, run, scores[-1]))
        left, right = st.columns([1, 1], gap="medium")
        with left:
            _loss(view, begun, run, scores)
            _accuracy(view, run, scores, setup)
        with right:
            frame = _moment(view, run, frames)
            role = pick_role(view, begun)
            heads(view, begun, frame, role)
    about = begun.about
    if about["by_heart"]:
        st.caption(view.t("training.by_heart", count=about["n_rows"]))
    if about["too_long"]:
        st.caption(view.t("training.too_long", count=about["too_long"], limit=LONGEST["own"]))
    if run is not None:
        fault_cards(view, run, scores)
    _layers(view, begun, run, frames)


def fault_cards(view: View, run: TrainingRun, scores: Sequence[Validation]) -> None:
    """The faults of this training, and their symptoms."""
    last = scores[-1]
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
        with st.container(border=True):
            title = view.t(f"training.faults.{name}.title")
            st.markdown(
                f":material/bug_report: **{title}** · {view.t(f'training.faults.{name}.what')}"
            )
            st.markdown(view.t(f"training.faults.{name}.tells", **values))


def _frames(begun: Before, run: TrainingRun | None) -> list[WatchedHeads]:
    """The frames of the run; before the first, the frame of the untrained model."""
    if run is not None and run.frames:
        return list(run.frames)
    fresh = begun.frame
    return [WatchedHeads(0, fresh.patterns, fresh.entropy, fresh.norms)]


def scores_of(begun: Before, run: TrainingRun | None) -> list[Validation]:
    """The scores so far; before the first, the score of the untrained model."""
    if run is not None and run.scores:
        return list(run.scores)
    return [Validation(step=0, **vars(begun.measured))]


def reading(view: View, begun: Before, run: TrainingRun | None, score: Validation) -> str:
    """The reading above the picture, with its numbers."""
    loss = f"{score.loss:.2f}"
    if run is None or not run.step:
        chance = math.log(begun.vocab)
        return view.t(
            "training.reading.before",
            parameters=f"{begun.parameters:,}",
            loss=loss,
            vocab=begun.vocab,
            chance=f"{chance:.2f}",
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


def marks_of(view: View, run: TrainingRun | None) -> list[tuple[int, str]]:
    """The steps at which faults were injected and removed, with labels."""
    if run is None:
        return []
    return [
        (step, ("+ " if on else "− ") + view.t(f"training.faults.{name}.short"))
        for step, name, on in run.faults
    ]


def last_step(run: TrainingRun | None, setup: Setup) -> int:
    """The step at the right end of the charts."""
    return (setup if run is None else run.setup).steps


def _loss(view: View, begun: Before, run: TrainingRun | None, scores: Sequence[Validation]) -> None:
    curves = [
        Curve(view.t("training.curve.held_out"), [s.step for s in scores], [s.loss for s in scores])
    ]
    if run is not None and run.loss:
        loss = list(run.loss)
        curves.insert(0, Curve(view.t("training.curve.loss"), range(1, len(loss) + 1), loss))
    figure = over_steps(
        curves,
        x_title=view.t("training.curve.step"),
        y_title=view.t("training.curve.nats"),
        last=last_step(run, view.choices(TrainingChoices).setup),
        marks=marks_of(view, run),
        level=(math.log(begun.vocab), view.t("training.curve.chance")),
        dark=view.dark,
    )
    controls.chart(figure, "training.loss", alt=view.t("training.curve.loss_alt"))


def _accuracy(
    view: View, run: TrainingRun | None, scores: Sequence[Validation], setup: Setup
) -> None:
    steps = [score.step for score in scores]
    figure = over_steps(
        [
            Curve(view.t("training.curve.forced"), steps, [score.forced for score in scores]),
            Curve(view.t("training.curve.free"), steps, [score.free for score in scores]),
        ],
        x_title=view.t("training.curve.step"),
        y_title=view.t("training.curve.right"),
        last=last_step(run, setup),
        marks=[(step, "") for step, _ in marks_of(view, run)],
        percent=True,
        height=220,
        dark=view.dark,
    )
    controls.chart(figure, "training.accuracy", alt=view.t("training.curve.accuracy_alt"))


def _moment(view: View, run: TrainingRun | None, frames: Sequence[WatchedHeads]) -> WatchedHeads:
    """The frame to show: the latest during training, later the chosen one.

    There is no slider during training: its moving end would be taken for a choice.
    """
    if run is not None and run.is_live:
        return frames[-1]
    steps = [frame.step for frame in frames]
    wanted = view.choices(TrainingChoices).moment
    at = len(steps) - 1
    if wanted is not None:
        at = max((i for i, step in enumerate(steps) if step <= wanted), default=0)
    if len(steps) < 2:
        return frames[at]
    st.session_state["training.moment"] = steps[at]
    st.select_slider(
        view.t("training.moment"),
        steps,
        key="training.moment",
        on_change=lambda: session.change(
            moment=None
            if st.session_state["training.moment"] == steps[-1]
            else st.session_state["training.moment"]
        ),
    )
    return frames[at]


def pick_role(view: View, *begun: Before) -> Role:
    """The control for the kind of attention, among those that all these models have."""
    has = [{site["role"] for site in each.about["sites"]} for each in begun]
    roles = [role for role in ROLES if all(role in each for each in has)]
    now = view.state.site if view.state.site in roles else roles[-1]
    st.session_state["training.kind"] = now
    st.segmented_control(
        view.t("place.kind"),
        roles,
        format_func=lambda kind: view.t(f"kinds.{kind}"),
        required=True,
        key="training.kind",
        label_visibility="collapsed",
        on_change=lambda: session.change_site(site=st.session_state["training.kind"]),
    )
    return now


def heads(
    view: View, begun: Before, frame: WatchedHeads, role: Role, run: TrainingRun | None = None
) -> None:
    """All heads of one kind at one step; `run` is named if there are several."""
    sites = begun.about["sites"]
    chosen = [at for at, site in enumerate(sites) if site["role"] == role]
    query, key = sites[chosen[0]]["streams"]
    tokens, text = begun.about["tokens"], escape(begun.about["shown"][0])
    said = view.t("training.heads_note", step=frame.step, text=text)
    if run is not None:
        said = f"**{view.t('training.compare.run', number=run.number)}** · {said}"
    st.caption(said)
    figure = small_heads(
        [frame.patterns[at] for at in chosen],
        tokens[query],
        tokens[key],
        dark=view.dark,
        words={
            "layer": view.t("place.layer"),
            "head": view.t("place.head"),
            "query": controls.axis_title(view, "query", query),
            "key": controls.axis_title(view, "key", key),
        },
    )
    key_of = "training.heads" if run is None else f"training.heads.{run.number}"
    controls.chart(figure, key_of, alt=view.t("training.heads_alt", step=frame.step))


def _layers(
    view: View, begun: Before, run: TrainingRun | None, frames: Sequence[WatchedHeads]
) -> None:
    """Two more charts: the gradient per block, and the entropy of heads per site."""
    if run is None or len(frames) < 2:
        return
    steps = [frame.step for frame in frames]
    blocks, sites = begun.about["blocks"], begun.about["sites"]
    norms = [
        Curve(
            f"{view.t(f'training.stacks.{stack}')} {layer + 1}",
            steps[1:],
            [frame.norms[at] for frame in frames[1:]],
        )
        for at, (stack, layer) in enumerate(blocks)
    ]
    entropies = [
        Curve(
            f"{view.words('kinds')[site['role']]} {site['layer'] + 1}",
            steps,
            [frame.entropy[at] for frame in frames],
        )
        for at, site in enumerate(sites)
    ]
    for column, name, curves in zip(
        st.columns(2, gap="medium"), ("norm", "entropy"), (norms, entropies), strict=True
    ):
        with column:
            st.markdown(f"**{view.t(f'training.{name}_title')}**")
            figure = over_steps(
                curves,
                x_title=view.t("training.curve.step"),
                y_title=view.t(f"training.curve.{name}"),
                last=last_step(run, run.setup),
                marks=marks_of(view, run),
                log_y=name == "norm",
                dark=view.dark,
            )
            controls.chart(figure, f"training.{name}", alt=view.t(f"training.{name}_title"))


def look_again(run: TrainingRun | None) -> None:
    """Rerun the page while the training runs."""
    if run is not None and run.is_live:
        pulse("training.pulse", INTERVAL)
