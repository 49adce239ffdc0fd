"""The process of a training run: `python -m explorer.training.process`, orders in, messages out.

Both are JSON, one per line. The first line on standard input defines the setups and the folders;
then come orders: pause, go, step, back, fault, open, stop, end. The process ends with the last
run, by `end`, and when its standard input closes, which happens whenever the server that
started it ends. Its saved states are then deleted.
"""

import base64
import json
import os
import queue
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from explorer.training import learning
from explorer.training.opened import opened
from explorer.training.setup import MOST_SECONDS, Setup
from explorer.training.tasks import corpus
from models.training.saving import save_checkpoint

CHECKPOINT = "checkpoint"
FLUSH = 0.25
"""Seconds between two messages about steps."""
NICE = 5
"""Lower priority than the pages, so that a click is served before a step."""
Message = dict[str, Any]


class EndedError(Exception):
    """The order `end` was received."""


class TrainingProcess:
    """The runs of one process, one after another, which reads orders between steps."""

    def __init__(self, begin: Message, orders: "queue.Queue[Message]", out: TextIO) -> None:
        self.begin, self.orders, self.out = begin, orders, out
        self.at = 0
        self.paused = bool(begin.get("paused"))
        self.steps_left = -1  # until it pauses by itself
        self.skipped: set[int] = set()  # runs that were stopped before they began
        self.told: list[learning.TrainingStep] = []
        self.flushed = time.monotonic()

    def run(self) -> None:
        """All runs. Raises EndedError."""
        for at, values in enumerate(self.begin["setups"]):
            self.at = at
            if at in self.skipped:
                self.tell("state", state="stopped", step=0)
                continue
            self._learn(Setup(**values), Path(self.begin["folders"][at]))

    def tell(self, kind: str, **values: Any) -> None:
        """Send a message about the current run."""
        self.out.write(json.dumps({"kind": kind, "run": self.at, **values}) + "\n")
        self.out.flush()

    def _learn(self, setup: Setup, folder: Path) -> None:
        torch.manual_seed(setup.seed)
        learner = learning.SetupTrainer(setup, corpus(setup), folder)
        self._introduce(learner)
        back = self.begin.get("back")
        if back is None:
            self._look(learner)
            self._keep(learner)
            if setup.fault and not setup.planted_from:
                self._plant(learner, setup.fault, True)
        else:
            learner.back_to(back)
            learner.faults.update(self.begin.get("faults", ()))
            self.tell("back", step=back)
        kept = learning.snapshot_steps(setup.steps)
        seconds, state = 0.0, "done"
        self.tell("state", state="paused" if self.paused else "running")
        while learner.step < setup.steps:
            ordered = self._orders(learner)
            if ordered == "stop":
                state = "stopped"
                break
            started = time.monotonic()
            if setup.fault and 0 < setup.planted_from == learner.step:
                self._keep(learner)
                self._plant(learner, setup.fault, True)
            try:
                self._say(learner.take(learner.next_batch()))
            except learning.DivergedError as error:
                self._flush(learner)
                self.tell("diverged", step=learner.step, what=str(error))
                if self._after_divergence(learner) == "stop":
                    state = "diverged"
                    break
                continue
            if learner.step % learning.FRAME_EVERY == 0 or learner.step == setup.steps:
                self._frame(learner)
            if learner.step % learning.MEASURE_EVERY == 0 or learner.step == setup.steps:
                self._measure(learner)
            if learner.step in kept:
                self._keep(learner)
            seconds += time.monotonic() - started
            if seconds > MOST_SECONDS:
                state = "out_of_time"
                break
            if self.steps_left > 0:
                self.steps_left -= 1
                if not self.steps_left:
                    self._pause(learner)
        self._flush(learner)
        if state in ("stopped", "out_of_time") and learner.step % learning.MEASURE_EVERY:
            self._look(learner)
        if state != "diverged":
            self._keep(learner)
            self._save(learner, folder)
        self.tell("state", state=state, step=learner.step)

    # Orders.

    def _orders(self, learner: learning.SetupTrainer) -> str:
        """Carry out pending orders; wait while paused. "stop" ends this run."""
        while True:
            try:
                order = self.orders.get(block=self.paused)
            except queue.Empty:
                return ""
            if self._is_stopped_by(order):
                return "stop"
            self._carry_out(learner, order)

    def _after_divergence(self, learner: learning.SetupTrainer) -> str:
        """Accept only rewinding or stopping."""
        self.paused = True
        while True:
            order = self.orders.get()
            if self._is_stopped_by(order):
                return "stop"
            if order["do"] in ("back", "end"):
                self._carry_out(learner, order)
                return ""

    def _is_stopped_by(self, order: Message) -> bool:
        """Whether this stops the current run; a run that has not begun will be skipped."""
        if order["do"] != "stop":
            return False
        stopped = order.get("run", self.at)
        if stopped != self.at:
            self.skipped.add(stopped)
            return False
        self.paused = False
        return True

    def _carry_out(self, learner: learning.SetupTrainer, order: Message) -> None:
        match order["do"]:
            case "end":
                raise EndedError
            case "pause":
                self._pause(learner)
            case "go":
                self.paused, self.steps_left = False, -1
                self.tell("state", state="running")
            case "step":
                self.paused, self.steps_left = False, 1
            case "back" if learning.snapshot_path(learner.folder, order["step"]).is_file():
                learner.back_to(order["step"])
                learner.faults.clear()
                learner.faults.update(order.get("faults", ()))
                self.told.clear()
                self.tell("back", step=learner.step)
                self.paused = True
                self.tell("state", state="paused")
            case "fault":
                if order["on"]:
                    self._flush(learner)
                    self._keep(learner)
                self._plant(learner, order["name"], order["on"])
            case "open":
                self._open(learner, order)

    def _pause(self, learner: learning.SetupTrainer) -> None:
        self.paused, self.steps_left = True, -1
        self._flush(learner)
        self._look(learner)
        self._keep(learner)
        self._save(learner, learner.folder)
        self.tell("state", state="paused")

    def _plant(self, learner: learning.SetupTrainer, name: Any, on: bool) -> None:
        (learner.faults.add if on else learner.faults.discard)(name)
        self.tell("fault", step=learner.step, name=name, on=on)

    def _open(self, learner: learning.SetupTrainer, order: Message) -> None:
        """Take the next step, and send its details."""
        self._flush(learner)
        try:
            self.tell("opened", **opened(learner, order["name"], tuple(order["at"])))
        except learning.DivergedError as error:
            self.tell("diverged", step=learner.step, what=str(error))
            return
        self._look(learner)
        self._keep(learner)

    # Messages.

    def _introduce(self, learner: learning.SetupTrainer) -> None:
        self.tell("begin", **learner.about())

    def _say(self, step: learning.TrainingStep) -> None:
        self.told.append(step)

    def _flush(self, learner: learning.SetupTrainer) -> None:
        self.flushed = time.monotonic()
        if self.told:
            self.tell(
                "steps",
                first=learner.step - len(self.told) + 1,
                loss=[each.loss for each in self.told],
                norm=[each.norm for each in self.told],
                rate=[each.rate for each in self.told],
            )
            self.told.clear()

    def _look(self, learner: learning.SetupTrainer) -> None:
        self._frame(learner)
        self._measure(learner)

    def _frame(self, learner: learning.SetupTrainer) -> None:
        frame = learner.frame()
        if time.monotonic() - self.flushed > FLUSH:
            self._flush(learner)
        self.tell("frame", step=learner.step, **packed(frame))

    def _measure(self, learner: learning.SetupTrainer) -> None:
        self._flush(learner)
        self.tell("measured", step=learner.step, **vars(learner.measure()))

    def _keep(self, learner: learning.SetupTrainer) -> None:
        if learner.snapshot() is not None:
            self.tell("kept", step=learner.step)
        if (dropped := learner.drop_one()) is not None:
            self.tell("dropped", step=dropped)

    def _save(self, learner: learning.SetupTrainer, folder: Path) -> None:
        save_checkpoint(
            folder / CHECKPOINT, learner.model, learner.corpus.tokenizer, card_of(learner)
        )


def packed(frame: learning.HeadsFrame) -> Message:
    """A frame as JSON: its patterns in half precision, base64."""
    numbers = np.concatenate([each.ravel() for each in frame.patterns]).astype("<f2")
    return {
        "patterns": base64.b64encode(numbers.tobytes()).decode("ascii"),
        "shapes": [list(each.shape) for each in frame.patterns],
        "entropy": frame.entropy,
        "norms": frame.norms,
    }


def card_of(learner: learning.SetupTrainer) -> str:
    """CARD.md of a model that was trained here: its task, duration and results."""
    setup, measured = learner.setup, learner.measure()
    changed = ", ".join(f"{k} = {v}" for k, v in setup.changes().items()) or "the usual settings"
    faults = ", ".join(sorted(learner.faults)) or "none"
    return (
        f"Trained in Headlight's training room.\n\n## Data\n\nTask: {setup.task}; "
        f"{len(learner.corpus.rows):,} rows, {len(learner.corpus.held_out)} more to measure on"
        f"{' (the same: there are too few)' if learner.corpus.by_heart else ''}.\n\n"
        f"## Training\n\n{learner.step} steps of {setup.steps}; {changed}; faults: {faults}.\n\n"
        f"## Scores\n\nOn the rows to measure on: loss {measured.loss:.4f} nats, "
        f"{100 * measured.forced:.1f} % of tokens right under teacher forcing, "
        f"{100 * measured.free:.1f} % when it writes by itself, "
        f"{100 * measured.rows:.1f} % of rows right as a whole.\n\n"
        "## Known weaknesses\n\nIt knows nothing but this task, at these lengths.\n"
    )


def _listen(orders: "queue.Queue[Message]", folders: list[str]) -> None:
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
    begin = json.loads(sys.stdin.readline())
    orders: queue.Queue[Message] = queue.Queue()
    for folder in begin["folders"]:  # before `_listen` may delete them
        Path(folder).mkdir(parents=True, exist_ok=True)
    listener = threading.Thread(
        target=_listen, args=(orders, [*begin["folders"], begin["folder"]]), daemon=True
    )
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
