"""The process of a training run, `python -m explorer.training.process FILE`.

The file defines the setup and the folders; orders on standard input are pause, go, step, back,
fault, open, stop, end; messages are its output: all are JSON, one per line. The process ends with
the run, by `end`, and when its standard input closes, which happens whenever the server that
started it ends. Its saved states are then deleted.
"""

import json
import os
import queue
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

import torch

from explorer.training import learning
from explorer.training.learning import SetupTrainer
from explorer.training.opened import opened
from explorer.training.runs import CHECKPOINT
from explorer.training.setup import MOST_SECONDS, Setup
from explorer.training.tasks import corpus
from models.training.saving import save_checkpoint

FLUSH = 0.25
"""Seconds between two messages about steps."""
NICE = 5
"""Lower priority than the pages, so that a click is served before a step."""
Message = dict[str, Any]


class EndedError(Exception):
    """The order `end` was received."""


class TrainingProcess:
    """The run of one process, which reads orders between steps."""

    def __init__(self, begin: Message, orders: "queue.Queue[Message]", out: TextIO) -> None:
        self.begin, self.orders, self.out = begin, orders, out
        self.paused = bool(begin.get("paused"))
        self.steps_left = -1  # until it pauses by itself
        self.told: list[tuple[float, float]] = []  # loss and gradient norm of each step
        self.flushed = time.monotonic()

    def tell(self, kind: str, **values: Any) -> None:
        """Send a message."""
        self.out.write(json.dumps({"kind": kind, **values}) + "\n")
        self.out.flush()

    def run(self) -> None:
        """Train to the end. Raises EndedError."""
        setup, folder = Setup(**self.begin["setup"]), Path(self.begin["folder"])
        torch.manual_seed(setup.seed)
        self.learner = learner = SetupTrainer(setup, corpus(setup), folder)
        self.tell("begin", **learner.about())
        back = self.begin.get("back")
        if back is None:
            self._look()
            self._keep()
            if setup.fault and not setup.planted_from:
                self._plant(setup.fault, True)
        else:
            self._wind_back(back, self.begin)
        kept = learning.snapshot_steps(setup.steps)
        seconds, state = 0.0, "done"
        self.tell("state", state="paused" if self.paused else "running")
        while learner.step < setup.steps:
            if self._is_stopped():
                state = "stopped"
                break
            started = time.monotonic()
            if setup.fault and 0 < setup.planted_from == learner.step:
                self._keep()
                self._plant(setup.fault, True)
            try:
                self.told.append(learner.take(learner.next_batch()))
            except learning.DivergedError as error:
                self._flush()
                self.tell("diverged", step=learner.step, what=str(error))
                if self._is_stopped(diverged=True):
                    state = "diverged"
                    break
                continue
            if learner.step % learning.FRAME_EVERY == 0 or learner.step == setup.steps:
                self._frame()
            if learner.step % learning.MEASURE_EVERY == 0 or learner.step == setup.steps:
                self._measure()
            if learner.step in kept:
                self._keep()
            seconds += time.monotonic() - started
            if seconds > MOST_SECONDS:
                state = "out_of_time"
                break
            if self.steps_left > 0:
                self.steps_left -= 1
                if not self.steps_left:
                    self._pause()
        self._flush()
        if state in ("stopped", "out_of_time") and learner.step % learning.MEASURE_EVERY:
            self._look()
        if state != "diverged":
            self._save()
        self.tell("state", state=state, step=learner.step)

    # Orders.

    def _is_stopped(self, diverged: bool = False) -> bool:
        """Carry out pending orders; wait while paused. Whether one of them stops the run.

        After a divergence, only rewinding or stopping is accepted, and waited for.
        """
        self.paused |= diverged
        while True:
            try:
                order = self.orders.get(block=self.paused)
            except queue.Empty:
                return False
            if order["do"] == "stop":
                self.paused = False
                return True
            if not diverged or order["do"] in ("back", "end"):
                self._carry_out(order)
                if diverged:
                    return False

    def _carry_out(self, order: Message) -> None:
        match order["do"]:
            case "end":
                raise EndedError
            case "pause":
                self._pause()
            case "go":
                self.paused, self.steps_left = False, -1
                self.tell("state", state="running")
            case "step":
                self.paused, self.steps_left = False, 1
            case "back" if self.learner.snapshot_path(order["step"]).is_file():
                self.told.clear()
                self._wind_back(order["step"], order)
                self.paused = True
                self.tell("state", state="paused")
            case "fault":
                if order["on"]:
                    self._flush()
                    self._keep()
                self._plant(order["name"], order["on"])
            case "open":
                self._open(order["name"], tuple(order["at"]))

    def _wind_back(self, step: int, order: Message) -> None:
        self.learner.back_to(step)
        self.learner.faults.clear()
        self.learner.faults.update(order.get("faults", ()))
        self.tell("back", step=step)

    def _pause(self) -> None:
        self.paused, self.steps_left = True, -1
        self._flush()
        self._look()
        self._save()
        self.tell("state", state="paused")

    def _plant(self, name: Any, on: bool) -> None:
        (self.learner.faults.add if on else self.learner.faults.discard)(name)
        self.tell("fault", step=self.learner.step, name=name, on=on)

    def _open(self, name: str, at: tuple[int, ...]) -> None:
        """Take the next step, and send its details."""
        self._flush()
        try:
            self.tell("opened", **opened(self.learner, name, at))
        except learning.DivergedError as error:
            self.tell("diverged", step=self.learner.step, what=str(error))
            return
        self._look()
        self._keep()

    # Messages.

    def _flush(self) -> None:
        """Send the steps that were not yet sent."""
        self.flushed = time.monotonic()
        if self.told:
            loss, norm = zip(*self.told, strict=True)
            first = self.learner.step - len(self.told) + 1
            self.tell("steps", first=first, loss=loss, norm=norm)
            self.told.clear()

    def _look(self) -> None:
        self._frame()
        self._measure()

    def _frame(self) -> None:
        frame = self.learner.frame()
        if time.monotonic() - self.flushed > FLUSH:
            self._flush()
        self.tell("frame", **frame.packed())

    def _measure(self) -> None:
        self._flush()
        self.tell("measured", **vars(self.learner.measure()))

    def _keep(self) -> None:
        """Save this step for rewinding."""
        if self.learner.snapshot() is not None:
            self.tell("kept", step=self.learner.step)
        if (dropped := self.learner.drop_one()) is not None:
            self.tell("dropped", step=dropped)

    def _save(self) -> None:
        """Save this step, and the model as a checkpoint."""
        self._keep()
        card, tokenizer = card_of(self.learner), self.learner.corpus.tokenizer
        save_checkpoint(self.learner.folder / CHECKPOINT, self.learner.model, tokenizer, card)


def card_of(learner: SetupTrainer) -> str:
    """CARD.md of a model that was trained here: its task, duration and results."""
    setup, measured = learner.setup, learner.measure()
    changed = ", ".join(f"{k} = {v}" for k, v in setup.changes().items()) or "default settings"
    faults = ", ".join(sorted(learner.faults)) or "none"
    return (
        f"Trained in Headlight.\n\n## Data\n\nTask: {setup.task}; "
        f"{len(learner.corpus.rows):,} training and {len(learner.corpus.held_out)} validation "
        f"examples{' (the same ones)' if learner.corpus.by_heart else ''}.\n\n"
        f"## Training\n\n{learner.step} of {setup.steps} steps; {changed}; "
        f"bugs at the end: {faults}.\n\n"
        f"## Scores\n\nOn the validation examples: loss {measured.loss:.4f} nats, token accuracy "
        f"{100 * measured.forced:.1f} % teacher-forced and {100 * measured.free:.1f} % "
        f"free-running, exact match {100 * measured.rows:.1f} %.\n\n"
        "## Known weaknesses\n\nTrained on this task only.\n"
    )


def _listen(orders: "queue.Queue[Message]", folders: tuple[str, ...]) -> None:
    """Forward orders. When the input closes, delete the saved states, and end."""
    for line in sys.stdin:
        orders.put(json.loads(line))
    for folder in folders:
        while os.path.exists(folder):  # a step may be being saved
            shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def main() -> int:
    """Run the process from its first line to its end; returns 0 unless something went wrong."""
    torch.set_num_threads(1)
    os.nice(NICE)
    begin = json.loads(Path(sys.argv[-1]).read_text("utf-8"))
    orders: queue.Queue[Message] = queue.Queue()
    folders = begin["folder"], begin["room"]
    Path(folders[0]).mkdir(parents=True, exist_ok=True)  # before `_listen` may delete it
    listener = threading.Thread(target=_listen, args=(orders, folders), daemon=True)
    listener.start()
    try:
        TrainingProcess(begin, orders, sys.stdout).run()
    except EndedError:
        pass
    except (BrokenPipeError, FileNotFoundError):  # the reader or the states are gone
        listener.join()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
