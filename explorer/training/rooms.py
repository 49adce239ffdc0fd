"""Rooms for training: one per user, with a secret name; only a few runs train at once.

A room's runs train one after another in processes of their own, and end with the user: soon
after the last tab that watches them is closed, and whenever this process ends.
"""

import atexit
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explorer.problems import InputProblem
from explorer.sandbox.apart import ROOT, START, prefix
from explorer.training.runs import ENDED, TrainingRun
from explorer.training.setup import Setup

VARIABLE = "HEADLIGHT_TRAININGS"
"""The environment variable with the number of concurrent runs of all users; 0: none."""
USUAL_AT_ONCE = 2
MOST_WAITING = 4
"""The maximum number of queued or running series per user."""
MOST_RUNS = 24
"""The maximum number of stored runs per user; beyond it, the oldest finished ones are dropped."""
ABSENCE = 15.0
"""Seconds that an empty room is preserved, for a reload or a lost connection."""
IDLE = 300.0
"""Seconds until a paused run gives up its process; continuing starts another."""
_TICK = 1.0
Presence = Callable[[], bool]


def at_once() -> int:
    """The number of concurrent runs. Raises ValueError if the environment names no number."""
    wanted = os.environ.get(VARIABLE, str(USUAL_AT_ONCE))
    if not (wanted.isascii() and wanted.isdigit()):
        raise ValueError(f"{VARIABLE} must be a whole number of training runs, not {wanted!r}")
    return int(wanted)


@dataclass(eq=False)
class Series:
    """Runs that one process trains one after another: one, or the same with several seeds.

    `resume`: the first orders of a finished run that is continued.
    """

    runs: list[TrainingRun]
    resume: dict[str, Any] = field(default_factory=dict)
    process: "subprocess.Popen[str] | None" = None
    paused_at: float | None = None

    @property
    def current(self) -> TrainingRun:
        """The current run: the first that has not ended, else the last."""
        return next((run for run in self.runs if run.state not in ENDED), self.runs[-1])

    def order(self, do: str, **values: Any) -> None:
        """Send an order to the process; no effect if it has ended."""
        if self.process is not None and self.process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self.process.stdin.write(json.dumps({"do": do, **values}) + "\n")
                self.process.stdin.flush()

    def end(self) -> None:
        """Kill the process if it is still running, and close its pipes."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stdin is not None
            with contextlib.suppress(OSError):  # an unread order
                self.process.stdin.close()


class Room:
    """One user's runs. `owner` identifies the user's browser; "" if it is unknown."""

    def __init__(self, name: str, owner: str) -> None:
        self.name, self.owner = name, owner
        self.runs: list[TrainingRun] = []
        self.series: list[Series] = []
        self.folder = Path(tempfile.mkdtemp(prefix=prefix()))
        self.number = 0
        self.watchers: dict[str, Presence] = {}
        self.seen = time.monotonic()

    def run(self, number: int | None) -> TrainingRun | None:
        """The run with this number; None: the newest."""
        matches = [run for run in self.runs if number in (None, run.number)]
        return matches[-1] if matches else None

    def series_of(self, run: TrainingRun) -> Series | None:
        """The series that still trains it, if any."""
        return next((series for series in self.series if run in series.runs), None)


class Rooms:
    """All rooms of this process, and the few concurrent runs."""

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._rooms: dict[str, Room] = {}
        self._waiting: list[tuple[Room, Series]] = []
        self._running: list[tuple[Room, Series]] = []
        self._keeper: threading.Thread | None = None

    # Rooms and who is in them.

    def open(self, owner: str) -> Room:
        """A new room."""
        with self._guard:
            if self._keeper is None:
                atexit.register(self.close_all)
                self._keeper = threading.Thread(target=self._keep, daemon=True, name="trainings")
                self._keeper.start()
            room = Room(secrets.token_urlsafe(12), owner)
            self._rooms[room.name] = room
            return room

    def find(self, name: str, owner: str) -> Room | None:
        """The room of this name, for the browser that opened it."""
        room = self._rooms.get(name)
        return room if room is not None and secrets.compare_digest(room.owner, owner) else None

    def watch(self, room: Room, session: str, is_here: Presence) -> None:
        """Register a session as a watcher; the room exists while one of them is present."""
        room.watchers[session] = is_here
        room.seen = time.monotonic()

    def close(self, room: Room) -> None:
        """End everything in a room, and delete it."""
        with self._guard:
            self._rooms.pop(room.name, None)
            self._waiting = [pair for pair in self._waiting if pair[0] is not room]
            for _, series in [pair for pair in self._running if pair[0] is room]:
                series.end()
        shutil.rmtree(room.folder, ignore_errors=True)

    def close_all(self) -> None:
        """End everything, before this process ends."""
        for room in list(self._rooms.values()):
            self.close(room)

    # Trainings.

    def start(self, room: Room, setups: Sequence[Setup]) -> list[TrainingRun]:
        """Train these setups, one after another, as soon as it is their turn.

        Raises InputProblem: `training_off` if the server disables training, `training_waiting` if
        this user has reached the limit of queued series.
        """
        if at_once() == 0:
            raise InputProblem("training_off", variable=VARIABLE)
        with self._guard:
            if len(room.series) >= MOST_WAITING:
                raise InputProblem("training_waiting", limit=MOST_WAITING)
            runs = []
            for setup in setups:
                room.number += 1
                runs.append(TrainingRun(room.number, setup, room.folder / f"run-{room.number}"))
            room.runs += runs
            self._forget_old(room)
            self._queue(room, Series(runs))
            return runs

    def again(self, room: Room, run: TrainingRun, step: int, paused: bool) -> None:
        """Continue a finished run from one of its saved steps.

        Raises InputProblem as `start`.
        """
        with self._guard:
            if len(room.series) >= MOST_WAITING:
                raise InputProblem("training_waiting", limit=MOST_WAITING)
            run.state = "waiting"
            faults = list(run.planted(step))
            self._queue(room, Series([run], {"back": step, "faults": faults, "paused": paused}))

    def order(self, room: Room, run: TrainingRun, do: str, **values: Any) -> None:
        """Send an order to a run's process: pause, go, step, stop, back, fault, open."""
        series = room.series_of(run)
        if series is None:
            return
        with self._guard:
            waiting = next((entry for entry in self._waiting if entry[1] is series), None)
            if waiting is not None and do == "stop":
                self._waiting.remove(waiting)
                room.series.remove(series)
                for entry in series.runs:
                    entry.state = "stopped"
                return
        if do == "stop" and run is not series.current:  # it has not begun, and never will
            run.state = "stopped"
        else:
            run.ordered = do
        series.order(do, run=series.runs.index(run), **values)

    def ahead(self, room: Room, run: TrainingRun) -> int:
        """The number of series queued before this run's; 0 once it is its turn."""
        with self._guard:
            for at, (_, series) in enumerate(self._waiting):
                if run in series.runs:
                    return at + len(self._running)
            return 0

    def _forget_old(self, room: Room) -> None:
        ended = [run for run in room.runs if run.state in ENDED]
        for run in ended[: max(0, len(room.runs) - MOST_RUNS)]:
            room.runs.remove(run)
            shutil.rmtree(run.folder, ignore_errors=True)

    def _queue(self, room: Room, series: Series) -> None:
        room.series.append(series)
        self._waiting.append((room, series))
        self._call()

    def _call(self) -> None:
        """Start the next series in order, at most one per room. The caller holds the guard."""
        for room, series in list(self._waiting):
            if len(self._running) >= at_once():
                return
            if all(other is not room for other, _ in self._running):
                self._waiting.remove((room, series))
                self._running.append((room, series))
                self._begin(room, series)

    def _begin(self, room: Room, series: Series) -> None:
        series.runs[0].state = "starting"
        begin = {
            "setups": [run.setup.as_json() for run in series.runs],
            "folders": [str(run.folder) for run in series.runs],
            "folder": str(room.folder),
            **series.resume,
        }
        # In a file, since the process reads nothing while it imports, and a pipe takes 64 kB.
        file = room.folder / f"begin-{series.runs[0].number}.json"
        try:
            file.write_text(json.dumps(begin), encoding="utf-8")
            series.process = self._started(file)
            threading.Thread(target=self._hear, args=(room, series), daemon=True).start()
        except (OSError, RuntimeError):  # the system is out of room, processes or threads
            self._give_back(room, series)

    def _started(self, begin: Path) -> "subprocess.Popen[str]":
        """A process that begins with this file. Raises OSError if the system has none left."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(
            [sys.executable, "-c", START.format(str(ROOT), "explorer.training.process"), begin],
            stdin=subprocess.PIPE,  # closed whenever this process ends
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
            encoding="utf-8",
            errors="replace",  # a character may be cut off
        )

    def _hear(self, room: Room, series: Series) -> None:
        """Handle the messages of a process until it ends; always frees its slot afterwards."""
        try:
            assert series.process is not None
            assert series.process.stdout is not None
            with series.process.stdout as lines:
                for line in lines:
                    try:
                        message = json.loads(line)
                    except ValueError:  # cut off: the process was killed while it wrote
                        continue
                    series.runs[message["run"]].hear(message)
                    paused = series.current.state == "paused"
                    series.paused_at = (series.paused_at or time.monotonic()) if paused else None
        finally:
            self._give_back(room, series)

    def _give_back(self, room: Room, series: Series) -> None:
        """End the process of a series and start the next one."""
        series.end()
        with self._guard:
            for run in series.runs:
                run.ordered = ""
                if run.state not in ENDED:
                    # A paused run has only given up its process: it can be continued.
                    run.state = "stopped" if run.state == "paused" else "lost"
            room.series.remove(series)
            self._running = [pair for pair in self._running if pair[1] is not series]
            self._call()

    def _keep(self) -> None:
        """Periodically close empty rooms, and release the processes of long-paused runs."""
        while True:
            time.sleep(_TICK)
            self.look_after(time.monotonic())

    def look_after(self, now: float) -> None:
        """Do what is due at this time (`time.monotonic`)."""
        for room in list(self._rooms.values()):
            room.watchers = {k: here for k, here in room.watchers.items() if here()}
            if room.watchers:
                room.seen = now
            elif now - room.seen > ABSENCE:
                self.close(room)
        for _, series in list(self._running):
            if series.paused_at is not None and now - series.paused_at > IDLE:
                series.order("end")


ROOMS = Rooms()
"""The rooms of this process."""
