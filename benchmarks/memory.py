"""Memory of the server while many different long texts are read, in one session and in many.

    python -m benchmarks.memory [--texts 500] [--sessions 100]

One session asks for texts of some 110 tokens with translations of its own, over all pages; then
sessions are opened, read one such text each, and are closed. What a server keeps must come to a
plateau: the budget of its cache (HEADLIGHT_CACHE_MB) besides what it takes anyway.
"""

import argparse
import asyncio
import random

from benchmarks.visitors import change, connected, cost, listening, tree
from explorer.pages import PAGES
from tests.browser.app import running_app

SENTENCE = (
    "the old teacher reads a long letter in the garden and her friend paints a picture of the "
    "house near the river while the child sells books under the bridge"
)
TRANSLATION = "老师在花园里读一封长信而她的朋友在画河边的房子孩子在桥下卖书"


def texts(seed: int) -> dict[str, str]:
    """A text of some hundred tokens with a translation of its own, different for every seed."""
    rng = random.Random(seed)
    words = rng.choices(SENTENCE.split(), k=95)
    return {
        "text": f"Number {seed} says " + " ".join(words) + ".",
        "target": "".join(rng.choices(TRANSLATION, k=60)),
    }


async def one_session(url: str, seeds: range, pids: list[int], every: int) -> None:
    """All texts in one session, one page after the other; prints the memory now and then."""
    pages = [page.name for page in PAGES]
    async with connected(url) as socket:
        for at, seed in enumerate(seeds):
            query = {"lang": "en"} | texts(seed)
            await change(socket, seed, pages[at % len(pages)], query)
            if (at + 1) % every == 0:
                print(f"{at + 1:>5} texts in one session {cost(pids)[1]:>8.0f} MB", flush=True)


async def many_sessions(url: str, seeds: range, pids: list[int], every: int) -> None:
    """A session for each text, closed once its page was drawn."""
    pages = [page.name for page in PAGES]
    for at, seed in enumerate(seeds):
        async with connected(url) as socket:
            await change(socket, seed, pages[at % len(pages)], {"lang": "en"} | texts(seed))
        if (at + 1) % every == 0:
            print(f"{at + 1:>5} sessions, closed     {cost(pids)[1]:>8.0f} MB", flush=True)


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--sessions", type=int, default=100)
    args = parser.parse_args()
    with running_app() as address:
        pids = tree(listening(int(address.rpartition(":")[2])))
        url = address.replace("http", "ws", 1)
        print(f"{'before':<27}{cost(pids)[1]:>8.0f} MB")
        asyncio.run(one_session(url, range(args.texts), pids, max(1, args.texts // 10)))
        first = args.texts
        asyncio.run(
            many_sessions(
                url, range(first, first + args.sessions), pids, max(1, args.sessions // 5)
            )
        )


if __name__ == "__main__":
    main()
