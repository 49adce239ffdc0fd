"""A class in front of one server: how long a change takes while many visitors make them.

    python -m benchmarks.visitors --sessions 25 --seconds 60 [--heavy 2] [--url http://…]

Each visitor is a session of Streamlit's own protocol, without a browser: every ten seconds on
average it changes its sentence or the causal mask, and waits until the page is drawn. Every answer
is searched for the other visitors' sentences. `--heavy` visitors besides ask for the most expensive
things there are, one after the other; what they wait for does not count.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from explorer.pages import PAGES
from tests.browser.app import running_app

NOUNS = ("book", "dog", "house", "teacher", "river", "city", "song", "letter", "friend", "garden")
VERBS = ("reads", "sees", "likes", "paints", "finds", "sells", "buys", "loves", "draws", "wants")
PATIENCE = 120
"""Seconds after which a visitor gives up waiting for a page."""


HEAVY = (
    ("decoding", {"model": "stories", "strategy": "beam-8-0.6", "limit": "128"}),
    ("claims", {"claim": "swiglu_equal", "guess": "true"}),
    ("claims", {"claim": "norm_stabilises", "guess": "true"}),
    ("certificate", {"tested": "1"}),
)
"""The longest computations that a link can ask for: minutes of them."""
HEAVY_STAY = 8
"""Seconds that an expensive visitor stays at each."""


@dataclass(frozen=True)
class Change:
    """One change of one visitor: what it cost her, and whether the answer was hers."""

    visitor: int
    page: str
    seconds: float
    kilobytes: float
    is_seen: bool  # her own sentence stands in the answer
    is_foreign: bool  # somebody else's does
    exception: str


async def visit(
    visitor: int, url: str, page: str, stop: float, think: float, changes: list[Change]
) -> None:
    """One visitor on one page, until `stop` on time.monotonic()'s clock.

    Between two changes she thinks for `think` seconds on average, exponentially distributed.
    """
    rng = random.Random(visitor)
    await asyncio.sleep(rng.random() * think)  # a class does not press at once
    async with websockets.connect(
        f"{url}/_stcore/stream", subprotocols=["streamlit"], max_size=None, ping_interval=None
    ) as socket:
        while time.monotonic() < stop:
            text = f"Number {visitor} {rng.choice(VERBS)} a {rng.choice(NOUNS)}."
            query = {"lang": "en", "text": text}
            if rng.random() < 0.5:
                query["edits"] = "causal-off"
            changes.append(await change(socket, visitor, page, query))
            await asyncio.sleep(rng.expovariate(1 / think))


async def change(
    socket: websockets.ClientConnection, visitor: int, page: str, query: dict[str, str]
) -> Change:
    """Ask for one page and read until the script has finished."""
    message = BackMsg()
    message.rerun_script.query_string = urlencode(query)
    message.rerun_script.page_name = page
    began, n_bytes, seen, foreign, exception = time.perf_counter(), 0, False, False, ""
    await socket.send(message.SerializeToString())
    while True:
        raw = await asyncio.wait_for(socket.recv(), PATIENCE)
        assert isinstance(raw, bytes)
        n_bytes += len(raw)
        answer = ForwardMsg.FromString(raw)
        if answer.WhichOneof("type") == "script_finished":
            break
        if answer.WhichOneof("type") != "delta":
            continue
        words = raw.decode("utf8", "ignore")
        seen = seen or query["text"] in words
        numbers = (part.split(" ")[0] for part in words.split("Number ")[1:])
        foreign = foreign or any(n.isdigit() and int(n) != visitor for n in numbers)
        element = answer.delta.new_element
        if element.WhichOneof("type") == "exception":
            exception = element.exception.message
    seconds = time.perf_counter() - began
    return Change(visitor, page, seconds, n_bytes / 1024, seen, foreign, exception)


async def measure(
    url: str, sessions: int, seconds: float, think: float, pages: Sequence[str], heavy: int = 0
) -> list[Change]:
    """All visitors at once, each on the next of the pages. Raises what the first of them raised."""
    changes: list[Change] = []
    stop = time.monotonic() + seconds
    await asyncio.gather(
        *(
            visit(each, url, pages[each % len(pages)], stop, think, changes)
            for each in range(sessions)
        ),
        *(overload(sessions + each, url, stop) for each in range(heavy)),
    )
    return changes


async def overload(visitor: int, url: str, stop: float) -> None:
    """Ask for the expensive things in turn, and leave each of them half computed."""
    async with websockets.connect(
        f"{url}/_stcore/stream", subprotocols=["streamlit"], max_size=None, ping_interval=None
    ) as socket:
        at = visitor
        while time.monotonic() < stop:
            page, query = HEAVY[at % len(HEAVY)]
            text = f"Number {visitor} waits for {at} letters."
            await change(socket, visitor, page, {"lang": "en", "text": text} | query)
            await asyncio.sleep(HEAVY_STAY)
            at += 1


def quantile(seconds: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all do not exceed."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def rows(changes: Sequence[Change], seconds: float) -> Iterator[str]:
    """What was measured, in total and page by page."""
    by_page: defaultdict[str, list[float]] = defaultdict(list)
    for each in changes:
        by_page["all"].append(each.seconds)
        by_page[each.page].append(each.seconds)
    yield f"{'page':<14}{'changes':>8}{'p50':>9}{'p95':>9}{'slowest':>9}"
    for page, of_page in by_page.items():
        values = [quantile(of_page, share) for share in (0.5, 0.95, 1)]
        yield f"{page:<14}{len(of_page):>8}" + "".join(f"{each:>7.2f} s" for each in values)
    yield (
        f"{len(changes) / seconds:.1f} changes a second, "
        f"{statistics.median(each.kilobytes for each in changes):.0f} KB each; "
        f"{sum(each.is_foreign for each in changes)} with somebody else's words, "
        f"{sum(not each.is_seen for each in changes)} without her own, "
        f"{sum(bool(each.exception) for each in changes)} exceptions"
    )


def listening(port: int) -> int:
    """The process that listens on a port of this machine. Raises LookupError where none does."""
    wanted = f":{port:04X}"
    inodes = {
        fields[9]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for fields in map(str.split, Path(table).read_text().splitlines()[1:])
        if fields[1].endswith(wanted) and fields[3] == "0A"
    }
    for process in Path("/proc").glob("[0-9]*"):
        try:
            opened = {os.readlink(each) for each in process.joinpath("fd").iterdir()}
        except OSError:  # gone, or somebody else's
            continue
        if opened & {f"socket:[{inode}]" for inode in inodes}:
            return int(process.name)
    raise LookupError(f"nobody listens on port {port}")


def tree(root: int) -> list[int]:
    """A process and all that it has started, in that order."""
    children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    return [root, *(found for child in children for found in tree(int(child)))]


def cost(pids: Sequence[int]) -> tuple[float, float]:
    """Seconds of processor time that processes have used, and megabytes that they hold."""
    seconds = megabytes = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        megabytes += int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return seconds, megabytes


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", help="of a running server (usually: one is started)")
    parser.add_argument("--sessions", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--think", type=float, default=10, help="seconds between changes")
    parser.add_argument("--heavy", type=int, default=0, help="expensive visitors besides")
    parser.add_argument("--pages", default=",".join(page.name for page in PAGES))
    args = parser.parse_args()
    if args.url is None:
        with running_app() as address:
            _report(address, args)
    else:
        _report(args.url, args)


def _report(address: str, args: argparse.Namespace) -> None:
    pids = tree(listening(int(address.rpartition(":")[2])))
    used, held = cost(pids)
    socket = address.replace("http", "ws", 1)
    changes = asyncio.run(
        measure(socket, args.sessions, args.seconds, args.think, args.pages.split(","), args.heavy)
    )
    now_used, now_held = cost(pids)
    print(json.dumps(vars(args)))
    print(*rows(changes, args.seconds), sep="\n")
    print(
        f"{(now_used - used) / len(changes):.3f} s of processor time a change; "
        f"{held:.0f} MB before, {now_held:.0f} MB after"
    )


if __name__ == "__main__":
    main()
