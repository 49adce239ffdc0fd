"""Rooms for training: one per user, with a secret name; only a few runs train at once.

A room's runs train one after another, each in a process of its own, and end with the user: soon
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
from collections.abc import Callable
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
"""The maximum number of queued or running runs per user."""
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
class Work:
    """The training of a run by a process. `resume`: the first orders of one that is continued."""

    run: TrainingRun
    resume: dict[str, Any] = field(default_factory=dict)
    process: "subprocess.Popen[str] | None" = None
    paused_at: float | None = None

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
        self.work: list[Work] = []
        self.folder = Path(tempfile.mkdtemp(prefix=prefix()))
        self.number = 0
        self.watchers: dict[str, Presence] = {}
        self.seen = time.monotonic()

    def run(self, number: int | None) -> TrainingRun | None:
        """The run with this number; None: the newest."""
        matches = [run for run in self.runs if number in (None, run.number)]
        return matches[-1] if matches else None

    def work_on(self, run: TrainingRun) -> Work | None:
        """The work that still trains it, if any."""
        return next((work for work in self.work if work.run is run), None)


class Rooms:
    """All rooms of this process, and the few concurrent runs."""

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._rooms: dict[str, Room] = {}
        self._waiting: list[tuple[Room, Work]] = []
        self._running: list[tuple[Room, Work]] = []
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
            for _, work in [pair for pair in self._running if pair[0] is room]:
                work.end()
        shutil.rmtree(room.folder, ignore_errors=True)

    def close_all(self) -> None:
        """End everything, before this process ends."""
        for room in list(self._rooms.values()):
            self.close(room)

    # Trainings.

    def start(self, room: Room, setup: Setup) -> TrainingRun:
        """Train this setup as soon as it is its turn.

        Raises InputProblem: `training_off` if the server disables training, `training_waiting` if
        this user has reached the limit of queued runs.
        """
        if at_once() == 0:
            raise InputProblem("training_off", variable=VARIABLE)
        with self._guard:
            if len(room.work) >= MOST_WAITING:
                raise InputProblem("training_waiting", limit=MOST_WAITING)
            room.number += 1
            run = TrainingRun(room.number, setup, room.folder / f"run-{room.number}")
            room.runs.append(run)
            self._forget_old(room)
            self._queue(room, Work(run))
            return run

    def again(self, room: Room, run: TrainingRun, step: int, paused: bool) -> None:
        """Continue a finished run from one of its saved steps.

        Raises InputProblem as `start`.
        """
        with self._guard:
            if len(room.work) >= MOST_WAITING:
                raise InputProblem("training_waiting", limit=MOST_WAITING)
            run.state = "waiting"
            faults = list(run.planted(step))
            self._queue(room, Work(run, {"back": step, "faults": faults, "paused": paused}))

    def order(self, room: Room, run: TrainingRun, do: str, **values: Any) -> None:
        """Send an order to a run's process: pause, go, step, stop, back, fault, open."""
        work = room.work_on(run)
        if work is None:
            return
        with self._guard:
            if do == "stop" and (room, work) in self._waiting:
                self._waiting.remove((room, work))
                room.work.remove(work)
                run.state = "stopped"
                return
        run.ordered = do
        work.order(do, **values)

    def ahead(self, room: Room, run: TrainingRun) -> int:
        """The number of runs queued before this one; 0 once it is its turn."""
        with self._guard:
            for at, (_, work) in enumerate(self._waiting):
                if work.run is run:
                    return at + len(self._running)
            return 0

    def _forget_old(self, room: Room) -> None:
        ended = [run for run in room.runs if run.state in ENDED]
        for run in ended[: max(0, len(room.runs) - MOST_RUNS)]:
            room.runs.remove(run)
            shutil.rmtree(run.folder, ignore_errors=True)

    def _queue(self, room: Room, work: Work) -> None:
        room.work.append(work)
        self._waiting.append((room, work))
        self._call()

    def _call(self) -> None:
        """Start the next runs in order, at most one per room. The caller holds the guard."""
        for room, work in list(self._waiting):
            if len(self._running) >= at_once():
                return
            if all(other is not room for other, _ in self._running):
                self._waiting.remove((room, work))
                self._running.append((room, work))
                self._begin(room, work)

    def _begin(self, room: Room, work: Work) -> None:
        work.run.state = "starting"
        begin = {
            "setup": work.run.setup.as_json(),
            "folder": str(work.run.folder),
            "room": str(room.folder),
            **work.resume,
        }
        # In a file, since the process reads nothing while it imports, and a pipe takes 64 kB.
        file = room.folder / f"begin-{work.run.number}.json"
        try:
            file.write_text(json.dumps(begin), encoding="utf-8")
            work.process = self._started(file)
            threading.Thread(target=self._hear, args=(room, work), daemon=True).start()
        except (OSError, RuntimeError):  # the system is out of room, processes or threads
            self._give_back(room, work)

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

    def _hear(self, room: Room, work: Work) -> None:
        """Handle the messages of a process until it ends; always frees its slot afterwards."""
        try:
            assert work.process is not None
            assert work.process.stdout is not None
            with work.process.stdout as lines:
                for line in lines:
                    try:
                        message = json.loads(line)
                    except ValueError:  # cut off: the process was killed while it wrote
                        continue
                    work.run.hear(message)
                    paused = work.run.state == "paused"
                    work.paused_at = (work.paused_at or time.monotonic()) if paused else None
        finally:
            self._give_back(room, work)

    def _give_back(self, room: Room, work: Work) -> None:
        """End the process of a run and start the next one."""
        work.end()
        run = work.run
        with self._guard:
            run.ordered = ""
            if run.state not in ENDED:
                # A paused run has only given up its process: it can be continued.
                run.state = "stopped" if run.state == "paused" else "lost"
            room.work.remove(work)
            self._running = [pair for pair in self._running if pair[1] is not work]
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
        for _, work in list(self._running):
            if work.paused_at is not None and now - work.paused_at > IDLE:
                work.order("end")


ROOMS = Rooms()
"""The rooms of this process."""
