"""One training run as pages see it: its curves, its frames, its state."""

import base64
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explorer.training.setup import Setup

RunState = Literal[
    "waiting", "starting", "running", "paused", "done", "stopped", "diverged", "out_of_time", "lost"
]
ENDED: frozenset[RunState] = frozenset({"done", "stopped", "diverged", "out_of_time", "lost"})
MOST_FRAMES = 120
"""Maximum number of frames; beyond it every second one is dropped."""


@dataclass(frozen=True, eq=False)
class WatchedHeads:
    """The heads at one step: `patterns` by site, [head, query, key]; see `learning.HeadsFrame`."""

    step: int
    patterns: tuple[NDArray[np.float32], ...]
    entropy: tuple[float, ...]
    norms: tuple[float, ...]


@dataclass(frozen=True)
class Validation:
    """The validation results after a step; see `learning.ValidationScores`."""

    step: int
    loss: float
    forced: float
    free: float
    rows: float
    written: str
    padded: float = 0.0
    beyond: float | None = None


@dataclass(eq=False)
class TrainingRun:
    """One training run, written to by the thread that reads its process, and read by pages.

    `about` is the process's initial description of it. `loss`, `norm` and `rate` have one
    number per step. `faults` are (step, fault, planted or removed). `opened` is the last opened
    step. `gone_back` counts the rewinds, `ordered` is the last order that was not yet carried out,
    "" for none.
    """

    number: int
    setup: Setup
    folder: Path
    state: RunState = "waiting"
    about: dict[str, Any] = field(default_factory=dict)
    loss: list[float] = field(default_factory=list)
    norm: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    frames: list[WatchedHeads] = field(default_factory=list)
    scores: list[Validation] = field(default_factory=list)
    faults: list[tuple[int, str, bool]] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)
    opened: dict[str, Any] | None = None
    diverged: str = ""
    gone_back: int = 0
    ordered: str = ""

    def copy(self) -> "TrainingRun":
        """The run as it is now, which its process no longer changes."""
        return replace(self, **{name: copy(value) for name, value in vars(self).items()})

    @property
    def step(self) -> int:
        """Steps taken."""
        return len(self.loss)

    @property
    def is_live(self) -> bool:
        """Whether it may still change by itself."""
        return bool(self.ordered) or self.state in ("waiting", "starting", "running")

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was ordered and is not done yet: its process may get little CPU time."""
        return self.ordered == "stop" and self.state not in ENDED

    @property
    def last(self) -> Validation | None:
        """The newest measurement."""
        return self.scores[-1] if self.scores else None

    def planted(self, back: int | None = None) -> tuple[str, ...]:
        """The currently planted faults; or those planted after a rewind to step `back`.

        Faults planted after that step are then removed, except those of the setup.
        """
        found: dict[str, None] = {}
        for _, name, on in self._events(self.step if back is None else back):
            if on:
                found[name] = None
            else:
                found.pop(name, None)
        return tuple(found)

    def _events(self, back: int) -> list[tuple[int, str, bool]]:
        return [each for each in self.faults if back >= self.step or not each[0] or each[0] < back]

    def hear(self, message: Mapping[str, Any]) -> None:
        """Handle one message of the process."""
        answers = message["kind"] in ("state", "fault", "back", "opened", "diverged")
        if answers and (self.ordered != "stop" or message.get("state") in ENDED):
            self.ordered = ""
        match message["kind"]:
            case "begin":
                self.about = {k: v for k, v in message.items() if k not in ("kind", "run")}
            case "state":
                self.state = message["state"]
            case "steps":
                self._cut(message["first"] - 1)
                for name in ("loss", "norm", "rate"):
                    getattr(self, name).extend(message[name])
            case "frame":
                self.frames = [each for each in self.frames if each.step < message["step"]]
                self.frames.append(unpacked(message))
                if len(self.frames) > MOST_FRAMES:
                    self.frames = [*self.frames[:-1:2], self.frames[-1]]
            case "measured":
                self.scores = [each for each in self.scores if each.step < message["step"]]
                self.scores.append(
                    Validation(**{k: v for k, v in message.items() if k not in ("kind", "run")})
                )
            case "kept":
                self.kept.add(message["step"])
            case "dropped":
                self.kept.discard(message["step"])
            case "fault":
                self.faults.append((message["step"], message["name"], message["on"]))
            case "back":
                self._back(message["step"])
            case "diverged":
                self.diverged, self.state = message["what"], "paused"
            case "opened":
                told = {k: v for k, v in message.items() if k not in ("kind", "run")}
                self.opened = told
                self._cut(told["step"] - 1)
                for name in ("loss", "norm", "rate"):
                    getattr(self, name).append(told[name])

    def _cut(self, step: int) -> None:
        for name in ("loss", "norm", "rate"):
            del getattr(self, name)[step:]

    def _back(self, step: int) -> None:
        self.faults = self._events(step)
        self._cut(step)
        self.frames = [each for each in self.frames if each.step <= step]
        self.scores = [each for each in self.scores if each.step <= step]
        self.kept = {each for each in self.kept if each <= step}
        self.opened, self.diverged = None, ""
        self.gone_back += 1


def unpacked(message: Mapping[str, Any]) -> WatchedHeads:
    """A frame, decoded from the process's message."""
    numbers = np.frombuffer(base64.b64decode(message["patterns"]), "<f2").astype(np.float32)
    patterns, start = [], 0
    for shape in message["shapes"]:
        size = int(np.prod(shape))
        patterns.append(numbers[start : start + size].reshape(shape))
        start += size
    return WatchedHeads(
        message["step"], tuple(patterns), tuple(message["entropy"]), tuple(message["norms"])
    )
