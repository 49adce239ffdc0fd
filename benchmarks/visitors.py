"""Load test with a class on one server: latency of a change with many concurrent users.

    python -m benchmarks.visitors --sessions 25 --seconds 40 [--workers 2] [--heavy beam,claim]
                                  [--warm 1] [--together 1] [--url http://…]

Each simulated user is a session of Streamlit's protocol, without a browser: every ten seconds on
average it changes its sentence or the causal mask, and waits until the page is drawn; p50 and p95
are also given for the first picture of the page. Every response is searched for other users'
sentences.

`--warm 1`: each page is first opened once on every worker, which imports it and opens the default
model; the timed sentences are still new. `--heavy`: each name adds one user who repeatedly requests
the most expensive computation of that kind; its waiting time does not count. `--together 1`:
instead, all users open the same link at the same moment, for each page in turn, like a class that
receives a link from its teacher.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from inspect import isgeneratorfunction
from pathlib import Path
from urllib.parse import urlencode

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from explorer.analysis.cases import CLAIMS
from explorer.pages import PAGES
from explorer.runs.edits import HeadOff, format_edits
from tests.browser.app import running_workers

KINDS = ("old", "new", "small", "red", "quiet", "bright", "heavy", "long", "strange", "famous")
NOUNS = ("book", "dog", "house", "teacher", "river", "city", "song", "letter", "friend", "garden")
VERBS = ("reads", "sees", "likes", "paints", "finds", "sells", "buys", "loves", "draws", "wants")
PATIENCE = 120
"""Seconds after which a user gives up waiting for a page."""
AROUND = ("frame", "pulse")
"""Components that are not pictures, by the ends of their names."""


EVERY_HEAD_OFF = format_edits(
    HeadOff(f"blocks.{at}.attn", head) for at in range(6) for head in range(5)
)
"""Of the model `stories`."""
LONG = {"model": "stories", "strategy": "beam-8-0.6", "limit": "128"}
HEAVY: dict[str, tuple[tuple[str, dict[str, str]], ...]] = {
    "beam": (("decoding", LONG),),
    "off": (("decoding", LONG | {"edits": EVERY_HEAD_OFF}),),
    "uncached": (("decoding", LONG | {"edits": f"causal-off~{EVERY_HEAD_OFF}"}),),
    "tree": (("decoding", LONG | {"part": "branches", "beam": "beam-8-0.6"}),),
    "claim": tuple(
        ("cases", {"part": "claims", "claim": claim.id, "guess": "true"})
        for claim in CLAIMS
        if isgeneratorfunction(claim.measure)
    ),
    "matter": (
        ("heads", {"measure": "needed"}),
        ("heads", {"model": "stories", "measure": "needed"}),
    ),
    "proof": (
        ("cases", {"part": "tests", "tested": "1"}),
        ("cases", {"part": "tests", "model": "stories", "tested": "1"}),
    ),
}
"""The longest computations that a link can ask for, by kind: a beam of 8 over 128 steps, the same
with every head off, and without the cache; its tree; claims that train; each head switched off
once; all mask tests."""
HEAVY_STAY = 8
"""Seconds that an expensive user stays at each."""


@dataclass(frozen=True)
class Asked:
    """The settings of a run: the number of users, their pages, the duration in seconds, the think
    time between two changes, the kinds of additional expensive users, the sentences, and whether
    all users act at the same moment."""

    sessions: int
    seconds: float
    think: float
    pages: Sequence[str]
    heavy: Sequence[str] = ()
    seed: int = 0
    together: bool = False


@dataclass(frozen=True)
class Change:
    """One change of one user: its latency in `seconds`, that of the first `picture` (the same if
    the page has none), and whether the response was for this user."""

    visitor: int
    page: str
    seconds: float
    picture: float
    kilobytes: float
    is_seen: bool  # the response contains this user's sentence
    is_foreign: bool  # it contains another user's sentence
    exception: str


async def visit(
    visitor: int, url: str, page: str, stop: float, asked: Asked, changes: list[Change]
) -> None:
    """One user on one page, until `stop` on time.monotonic()'s clock.

    The think time between two changes is exponentially distributed.
    """
    rng = random.Random(f"{asked.seed} {visitor}")
    await asyncio.sleep(rng.random() * asked.think)  # users do not start at the same moment
    async with connected(url) as socket:
        while time.monotonic() < stop:
            words = rng.choice(VERBS), rng.choice(KINDS), rng.choice(NOUNS)
            text = f"Number {visitor} {words[0]} the {words[1]} {words[2]}."
            query = {"lang": "en", "text": text}
            if rng.random() < 0.5:
                query["edits"] = "causal-off"
            changes.append(await change(socket, visitor, page, query))
            thinks = rng.expovariate(1 / asked.think)
            await asyncio.sleep(max(0.0, min(thinks, stop - time.monotonic())))


async def change(
    socket: websockets.ClientConnection, visitor: int, page: str, query: dict[str, str]
) -> Change:
    """Request one page and read until the script has finished."""
    message = BackMsg()
    message.rerun_script.query_string = urlencode(query)
    message.rerun_script.page_name = page
    began, n_bytes, seen, foreign, exception = time.perf_counter(), 0, False, False, ""
    picture: float | None = None
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
        if picture is None and is_picture(element):
            picture = time.perf_counter() - began
    seconds = time.perf_counter() - began
    shown = seconds if picture is None else picture
    return Change(visitor, page, seconds, shown, n_bytes / 1024, seen, foreign, exception)


async def first_text(url: str) -> None:
    """Open a session, and read until its first element has arrived."""
    message = BackMsg()
    message.rerun_script.query_string = ""
    async with connected(url) as socket:
        await socket.send(message.SerializeToString())
        kind = None
        while kind != "delta":
            raw = await asyncio.wait_for(socket.recv(), PATIENCE)
            assert isinstance(raw, bytes)
            kind = ForwardMsg.FromString(raw).WhichOneof("type")


def is_picture(element: Element) -> bool:
    """Whether an element is a chart or a canvas."""
    kind = element.WhichOneof("type")
    named = element.bidi_component.component_name
    return kind == "plotly_chart" or (kind == "bidi_component" and not named.endswith(AROUND))


def connected(url: str) -> websockets.connect:
    """A session without a browser."""
    return websockets.connect(
        f"{url}/_stcore/stream", subprotocols=["streamlit"], max_size=None, ping_interval=None
    )


async def warm(url: str, workers: int) -> None:
    """Open each page once on every worker, so that its modules are imported."""
    async with AsyncExitStack() as visits:
        # Each new session is on the worker with the fewest.
        sockets = [await visits.enter_async_context(connected(url)) for _ in range(workers)]

        async def all_pages(socket: websockets.ClientConnection) -> None:
            for page in PAGES:
                await change(socket, 0, page.name, {"lang": "en", "text": "I like dogs."})

        await asyncio.gather(*map(all_pages, sockets))


async def measure(url: str, asked: Asked) -> list[Change]:
    """Run all users concurrently, on the pages in turn. Raises the first error of any user."""
    changes: list[Change] = []
    stop = time.monotonic() + asked.seconds
    await asyncio.gather(
        *(
            visit(each, url, asked.pages[each % len(asked.pages)], stop, asked, changes)
            for each in range(asked.sessions)
        ),
        *(
            overload(asked.sessions + at, url, stop, kind, asked.seed)
            for at, kind in enumerate(asked.heavy)
        ),
    )
    return changes


async def together(url: str, asked: Asked) -> list[Change]:
    """All users open the same new sentence at the same moment, on each page in turn."""

    async def arrive(page: str, text: str) -> Change:
        async with connected(url) as socket:
            return await change(socket, 0, page, {"lang": "en", "text": text})

    rng, changes = random.Random(f"{asked.seed} together"), []
    for page in asked.pages:
        text = f"Everybody {rng.choice(VERBS)} the {rng.choice(KINDS)} {rng.choice(NOUNS)}."
        changes += await asyncio.gather(*(arrive(page, text) for _ in range(asked.sessions)))
    return changes


async def overload(visitor: int, url: str, stop: float, kind: str, seed: int) -> None:
    """Request expensive computations of one kind in turn, and leave each one unfinished."""
    async with connected(url) as socket:
        for at in itertools.count():
            page, query = HEAVY[kind][at % len(HEAVY[kind])]
            text = f"Number {visitor} waits for {seed} and {at} letters."
            await change(socket, visitor, page, {"lang": "en", "text": text} | query)
            if time.monotonic() + HEAVY_STAY > stop:
                return
            await asyncio.sleep(HEAVY_STAY)


def quantile(seconds: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all do not exceed."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def rows(changes: Sequence[Change], seconds: float) -> Iterator[str]:
    """The results, in total and by page."""
    by_page: defaultdict[str, list[Change]] = defaultdict(list)
    for each in changes:
        by_page["all"].append(each)
        by_page[each.page].append(each)
    heads = ("p50", "p95", "slowest", "picture", "p95")
    yield f"{'page':<14}{'changes':>8}" + "".join(f"{head:>9}" for head in heads)
    for page, of_page in by_page.items():
        values = [quantile([each.seconds for each in of_page], share) for share in (0.5, 0.95, 1)]
        values += [quantile([each.picture for each in of_page], share) for share in (0.5, 0.95)]
        yield f"{page:<14}{len(of_page):>8}" + "".join(f"{each:>7.2f} s" for each in values)
    yield (
        f"{len(changes) / seconds:.1f} changes a second, "
        f"{statistics.median(each.kilobytes for each in changes):.0f} KB each; "
        f"{sum(each.is_foreign for each in changes)} with somebody else's words, "
        f"{sum(not each.is_seen for each in changes)} without her own, "
        f"{sum(bool(each.exception) for each in changes)} exceptions"
    )


def listening(port: int) -> int:
    """The process that listens on a local port. Raises LookupError if there is none."""
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
        except OSError:  # it has exited, or belongs to another user
            continue
        if opened & {f"socket:[{inode}]" for inode in inodes}:
            return int(process.name)
    raise LookupError(f"nobody listens on port {port}")


def tree(root: int) -> list[int]:
    """A process and its descendants, in that order."""
    children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    return [root, *(found for child in children for found in tree(int(child)))]


def cost(pids: Sequence[int]) -> tuple[float, float]:
    """CPU seconds used by processes, and their memory in megabytes."""
    seconds = megabytes = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        megabytes += int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return seconds, megabytes


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", help="of a running server (usually: one is started)")
    parser.add_argument("--workers", type=int, default=1, help="processes of the server")
    parser.add_argument("--sessions", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--think", type=float, default=10, help="seconds between changes")
    parser.add_argument("--warm", type=int, choices=(0, 1), default=0, help="open each page first")
    parser.add_argument("--seed", type=int, default=0, help="other sentences for another number")
    parser.add_argument("--heavy", type=_kinds, default=(), help=f"of {', '.join(HEAVY)}")
    parser.add_argument("--together", type=int, choices=(0, 1), default=0, help="one link for all")
    parser.add_argument("--pages", default=",".join(page.name for page in PAGES))
    args = parser.parse_args()
    asked = Asked(
        args.sessions,
        args.seconds,
        args.think,
        args.pages.split(","),
        args.heavy,
        args.seed,
        bool(args.together),
    )
    if args.url is None:
        with running_workers(args.workers) as (address, _):
            _report(address, asked, args.workers, args.warm)
    else:
        _report(args.url, asked, args.workers, args.warm)


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(text.split(","))
    if unknown := set(kinds) - set(HEAVY):
        raise argparse.ArgumentTypeError(f"no kind {min(unknown)!r}, of {', '.join(HEAVY)}")
    return kinds


def _report(address: str, asked: Asked, workers: int, is_warmed: bool) -> None:
    socket = address.replace("http", "ws", 1)
    if is_warmed:
        asyncio.run(warm(socket, workers))
    pids = tree(listening(int(address.rpartition(":")[2])))
    used, held = cost(pids)
    began = time.monotonic()
    changes = asyncio.run((together if asked.together else measure)(socket, asked))
    took = time.monotonic() - began
    now_used, now_held = cost(pids)
    print(json.dumps({"workers": workers, "warm": is_warmed} | asdict(asked)))
    print(*rows(changes, took if asked.together else asked.seconds), sep="\n")
    print(
        f"{(now_used - used) / len(changes):.3f} s of processor time a change; "
        f"{held:.0f} MB before, {now_held:.0f} MB after"
    )


if __name__ == "__main__":
    main()
