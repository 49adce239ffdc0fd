"""One training run as pages see it: its curves, its frames, its state."""

import base64
import math
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
CHECKPOINT = "checkpoint"
"""The name of a run's folder with its last saved model."""
MORE_PADS = 8
"""The number of additional PADs in the measurement with padding."""
MOST_FRAMES = 120
"""Maximum number of frames; beyond it every second one is dropped."""


@dataclass(frozen=True, eq=False)
class WatchedHeads:
    """The heads on the watched example after a step: `patterns` by site, each [head, query, key].

    `entropy` are means over the rows of a site's heads, in bits; `norms` are the gradient norms of
    each block, after clipping.
    """

    step: int
    patterns: tuple[NDArray[np.float32], ...]
    entropy: tuple[float, ...]
    norms: tuple[float, ...]

    def packed(self) -> dict[str, Any]:
        """As JSON: its patterns in half precision, base64."""
        numbers = np.concatenate([pattern.ravel() for pattern in self.patterns]).astype("<f2")
        code = base64.b64encode(numbers.tobytes()).decode("ascii")
        return vars(self) | {
            "patterns": code,
            "shapes": [pattern.shape for pattern in self.patterns],
        }

    @classmethod
    def unpacked(cls, values: Mapping[str, Any]) -> "WatchedHeads":
        """The inverse of `packed`."""
        numbers = np.frombuffer(base64.b64decode(values["patterns"]), "<f2").astype(np.float32)
        ends = np.cumsum([math.prod(shape) for shape in values["shapes"]])
        parts = zip(np.split(numbers, ends[:-1]), values["shapes"], strict=True)
        patterns = tuple(part.reshape(shape) for part, shape in parts)
        return cls(values["step"], patterns, tuple(values["entropy"]), tuple(values["norms"]))


@dataclass(frozen=True)
class Validation:
    """On the validation set after a step: loss and share of correct tokens under teacher forcing,
    as the training itself would measure it, faults included; free-running, the share of correct
    tokens and of exact matches; the free-running output for the watched example.
    `padded` is the change of the loss, in nats, if examples have MORE_PADS additional PADs: zero if
    padding is hidden."""

    step: int
    loss: float
    forced: float
    free: float
    rows: float
    written: str
    padded: float = 0.0


@dataclass(eq=False)
class TrainingRun:
    """One training run, written to by the thread that reads its process, and read by pages.

    `about` is the process's initial description of it. `loss` and `norm` have one number per step.
    `faults` are (step, fault, planted or removed). `opened` is the last opened step, `ordered`
    the last order that was not yet carried out, "" for none.
    """

    number: int
    setup: Setup
    folder: Path
    state: RunState = "waiting"
    about: dict[str, Any] = field(default_factory=dict)
    loss: list[float] = field(default_factory=list)
    norm: list[float] = field(default_factory=list)
    frames: list[WatchedHeads] = field(default_factory=list)
    scores: list[Validation] = field(default_factory=list)
    faults: list[tuple[int, str, bool]] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)
    opened: dict[str, Any] | None = None
    diverged: str = ""
    ordered: str = ""

    def copy(self) -> "TrainingRun":
        """The run as it is now, which its process no longer changes."""
        return replace(self, **{name: copy(value) for name, value in vars(self).items()})

    @property
    def step(self) -> int:
        """Steps taken."""
        return len(self.loss)

    @property
    def checkpoint(self) -> Path | None:
        """The folder with the last saved model, if there is one."""
        folder = self.folder / CHECKPOINT
        return folder if (folder / "model.safetensors").is_file() else None

    @property
    def is_live(self) -> bool:
        """Whether it may still change by itself."""
        return bool(self.ordered) or self.state in ("waiting", "starting", "running")

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was ordered and is not done yet: its process may get little CPU time."""
        return self.ordered == "stop" and self.state not in ENDED

    def planted(self, back: int | None = None) -> tuple[str, ...]:
        """The currently planted faults; or those planted after a rewind to step `back`.

        Faults planted after that step are then removed, except those of the setup.
        """
        names: dict[str, None] = {}
        for _, name, on in self._events(self.step if back is None else back):
            if on:
                names[name] = None
            else:
                names.pop(name, None)
        return tuple(names)

    def _events(self, back: int) -> list[tuple[int, str, bool]]:
        return [
            fault for fault in self.faults if back >= self.step or not fault[0] or fault[0] < back
        ]

    def hear(self, message: Mapping[str, Any]) -> None:
        """Handle one message of the process."""
        kind = message["kind"]
        values = {name: value for name, value in message.items() if name != "kind"}
        answers = kind in ("state", "fault", "back", "opened", "diverged")
        if answers and (self.ordered != "stop" or values.get("state") in ENDED):
            self.ordered = ""
        match kind:
            case "begin":
                self.about = values
            case "state":
                self.state = values["state"]
            case "steps":
                self._add(values["first"], values["loss"], values["norm"])
            case "frame":
                frame = WatchedHeads.unpacked(values)
                self.frames = [
                    *(record for record in self.frames if record.step < frame.step),
                    frame,
                ]
                if len(self.frames) > MOST_FRAMES:
                    self.frames = [*self.frames[:-1:2], frame]
            case "measured":
                score = Validation(**values)
                self.scores = [
                    *(record for record in self.scores if record.step < score.step),
                    score,
                ]
            case "kept":
                self.kept.add(values["step"])
            case "dropped":
                self.kept.discard(values["step"])
            case "fault":
                self.faults.append((values["step"], values["name"], values["on"]))
            case "back":
                self._back(values["step"])
            case "diverged":
                self.diverged, self.state = values["what"], "paused"
            case "opened":
                self.opened = values
                self._add(values["step"], [values["loss"]], [values["norm"]])

    def _add(self, first: int, loss: list[float], norm: list[float]) -> None:
        """Add steps from number `first` on, instead of any that were there."""
        self.loss, self.norm = self.loss[: first - 1] + loss, self.norm[: first - 1] + norm

    def _back(self, step: int) -> None:
        self.faults = self._events(step)
        self._add(step + 1, [], [])
        self.frames = [entry for entry in self.frames if entry.step <= step]
        self.scores = [entry for entry in self.scores if entry.step <= step]
        self.kept = {entry for entry in self.kept if entry <= step}
        self.opened, self.diverged = None, ""
