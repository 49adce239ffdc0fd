"""Soak test, users come and go for hours: a server's memory, descriptors, threads and latency.

    python -m benchmarks.soak --hours H [--visitors 10] [--workers 2] [--chart FILE.svg]

Each simulated user opens one or two random pages over Streamlit's protocol, makes a few changes and
leaves; then the next one starts. Every sentence is new to the server. One row is printed for each
of about a hundred intervals. The last line compares the end with the first quarter.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from pathlib import Path

import websockets

from benchmarks.visitors import KINDS, NOUNS, VERBS, Change, change, connected, cost, quantile, tree
from explorer.figures.theme import FONT, LIGHT
from explorer.pages import PAGES
from tests.browser.app import running_workers

ROWS = 100
SHORTEST = 10.0
"""Minimum seconds per row, for enough changes to compute p95."""
CHANGES = 4
"""Maximum number of changes per user."""
WIDE, TALL, LEFT, GAP = 720, 110, 70, 46
"""Pixels of the chart: width and height of a panel, its left margin, the space between two."""


@dataclass(frozen=True)
class Row:
    """The server at the end of one interval, and the changes during it; times in seconds."""

    minutes: float
    visitors: int  # users since the start
    changes: int
    megabytes: float
    descriptors: int
    threads: int
    p50: float
    p95: float
    failed: int  # changes that were refused, raised, or showed another user's sentence


PANELS = {
    "megabytes": "memory (MB)",
    "descriptors": "file descriptors",
    "threads": "threads",
    "p95": "p95 of a change (s)",
}


class Soak:
    """All users of one run, and their measurements since the last row."""

    def __init__(self, url: str, think: float, seed: int) -> None:
        self._url, self._think, self._seed = url, think, seed
        self.visitors, self.failed = 0, 0
        self.changes: list[Change] = []

    async def place(self, stop: float) -> None:
        """One user after another, until `stop` on time.monotonic()'s clock."""
        while time.monotonic() < stop:
            self.visitors += 1
            try:
                await self._visit(self.visitors, stop)
            except (OSError, websockets.WebSocketException) as problem:
                self.failed += 1
                print(f"visitor {self.visitors}: {type(problem).__name__}: {problem}", flush=True)
                await asyncio.sleep(1)

    async def _visit(self, visitor: int, stop: float) -> None:
        rng = random.Random(f"{self._seed} {visitor}")
        pages = [rng.choice(PAGES).name for _ in range(rng.randint(1, 2))]
        async with connected(self._url) as socket:
            for at in range(rng.randint(1, CHANGES)):
                words = rng.choice(VERBS), rng.choice(KINDS), rng.choice(NOUNS)
                text = f"Number {visitor} {words[0]} the {words[1]} {words[2]}."
                query = {"lang": rng.choice(("en", "zh")), "text": text}
                if rng.random() < 0.3:
                    query["edits"] = "causal-off"
                page = pages[at * len(pages) // CHANGES]
                made = await change(socket, visitor, page, query)
                self.changes.append(made)
                self.failed += made.is_foreign or bool(made.exception)
                thinks = rng.expovariate(1 / self._think)
                await asyncio.sleep(max(0.0, min(thinks, stop - time.monotonic())))

    def row(self, minutes: float, server: int) -> Row:
        """The server's current resources, and the changes since the last row."""
        seconds = [each.seconds for each in self.changes] or [0.0]
        failed, n_changes = self.failed, len(self.changes)
        self.changes, self.failed = [], 0
        times = quantile(seconds, 0.5), quantile(seconds, 0.95)
        return Row(minutes, self.visitors, n_changes, *held(server), *times, failed)


def held(server: int) -> tuple[float, int, int]:
    """Megabytes, descriptors and threads of a process and its children."""
    while True:
        pids = tree(server)
        try:
            opened = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
            running = sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids)
            return cost(pids)[1], opened, running
        except OSError:  # one of them has just ended
            continue


async def soak(url: str, server: int, args: argparse.Namespace) -> list[Row]:
    """Run the users; print each row as it is measured."""
    seconds = args.hours * 3600
    began, span = time.monotonic(), max(SHORTEST, seconds / ROWS)
    run = Soak(url, args.think, args.seed)
    places = [asyncio.create_task(run.place(began + seconds)) for _ in range(args.visitors)]
    rows = [run.row(0.0, server)]
    print(*(f"{field.name:>12}" for field in fields(Row)), sep="", flush=True)
    while True:
        done, _ = await asyncio.wait(places, timeout=span, return_when=asyncio.ALL_COMPLETED)
        rows.append(run.row((time.monotonic() - began) / 60, server))
        values = asdict(rows[-1]).values()
        print(*(f"{round(each, 2):>12}" for each in values), sep="", flush=True)
        if len(done) == len(places):
            for place in places:
                place.result()
            return rows


def plateau(rows: Sequence[Row]) -> str:
    """Medians of the second and the last quarter of the time, as text."""
    quarter = max(1, len(rows) // 4)
    early, late = rows[quarter : 2 * quarter], rows[-quarter:]
    said = []
    for name, title in PANELS.items():
        before, after = (
            statistics.median(getattr(each, name) for each in q) for q in (early, late)
        )
        said.append(f"{title}: {before:.2f} → {after:.2f}")
    return "second quarter → last quarter: " + "; ".join(said)


def chart(rows: Sequence[Row], title: str) -> str:
    """One panel for each of PANELS over the minutes, as an SVG."""
    last = max(rows[-1].minutes, 1e-9)
    height = (TALL + GAP) * len(PANELS) + GAP
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE + LEFT + 20} {height}" '
        f'font-family="{escape(FONT)}" font-size="12" fill="{LIGHT.ink}">',
        f'<rect width="100%" height="100%" fill="{LIGHT.paper}"/>',
        f'<text x="{LEFT}" y="20" font-size="13">{escape(title)}</text>',
    ]
    for at, (name, words) in enumerate(PANELS.items()):
        top = GAP + at * (TALL + GAP)
        values = [getattr(each, name) for each in rows]
        most = max(values) * 1.05 or 1
        points = " ".join(
            f"{LEFT + WIDE * row.minutes / last:.1f},{top + TALL * (1 - value / most):.1f}"
            for row, value in zip(rows, values, strict=True)
        )
        drawn += [
            f'<text x="{LEFT}" y="{top - 6}">{escape(words)}</text>',
            *_axis(top, most),
            f'<polyline points="{points}" fill="none" stroke="{LIGHT.curves[at]}" '
            'stroke-width="1.5"/>',
        ]
    foot = top + TALL + 16
    for share in (0, 0.5, 1):
        drawn.append(
            f'<text x="{LEFT + WIDE * share}" y="{foot}" text-anchor="middle" '
            f'fill="{LIGHT.muted}">{last * share:.0f} min</text>'
        )
    return "\n".join((*drawn, "</svg>\n"))


def _axis(top: float, most: float) -> list[str]:
    """Grid lines at 0, half and the full height of a panel, with labels."""
    drawn = []
    for share in (0, 0.5, 1):
        y, value = top + TALL * (1 - share), most * share
        number = f"{value:,.0f}" if most >= 10 else f"{value:.2f}"
        drawn += [
            f'<path d="M{LEFT} {y:.1f}h{WIDE}" stroke="{LIGHT.line}"/>',
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="{LIGHT.muted}">'
            f"{number}</text>",
        ]
    return drawn


def main() -> None:
    """Measure, print the rows, and draw the chart."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--visitors", type=int, default=10, help="at a time")
    parser.add_argument("--think", type=float, default=10, help="seconds between two changes")
    parser.add_argument("--workers", type=int, default=2, help="processes of the server")
    parser.add_argument("--seed", type=int, default=0, help="other sentences for another number")
    parser.add_argument("--chart", type=Path, help="an SVG to write")
    args = parser.parse_args()
    with running_workers(args.workers) as (address, server):
        rows = asyncio.run(soak(address.replace("http", "ws", 1), server, args))
    print(json.dumps({name: str(value) for name, value in vars(args).items()}))
    print(plateau(rows))
    if args.chart is not None:
        title = f"{args.visitors} visitors at a time, {args.workers} workers"
        args.chart.write_text(chart(rows, title), encoding="utf-8")


if __name__ == "__main__":
    main()
