"""Server memory for many different long texts, in one session and in many.

    python -m benchmarks.memory [--texts 500] [--sessions 100]
    python -m benchmarks.memory --texts 0 --sessions 200 --compare 40
    HEADLIGHT_MODELS=FOLDER python -m benchmarks.memory --model NAME --words 900 --pages heads

One session requests texts of about 110 tokens with given translations, on all pages; then sessions
are opened, read one such text each, and are closed. The server's memory must reach a plateau: its
base plus the budget of its cache (HEADLIGHT_CACHE_MB). `--compare N` also prints how much the
server grew between session N and the last one.
"""

import argparse
import asyncio
import random
import time

from benchmarks.visitors import change, connected, cost, listening, tree
from explorer.pages import PAGES
from tests.browser.app import running_app

SENTENCE = (
    "the old teacher reads a long letter in the garden and her friend paints a picture of the "
    "house near the river while the child sells books under the bridge"
)
IDLE = 30
TRANSLATION = "老师在花园里读一封长信而她的朋友在画河边的房子孩子在桥下卖书"


def texts(seed: int, asked: argparse.Namespace) -> dict[str, str]:
    """A text of some hundred tokens, or of as many words as are asked for, different for every
    seed; with a translation of its own where the model is the usual one."""
    rng = random.Random(seed)
    words = rng.choices(SENTENCE.split(), k=asked.words)
    text = {"lang": "en", "text": f"Number {seed} says " + " ".join(words) + "."}
    if asked.model:
        return text | {"model": asked.model}
    return text | {"target": "".join(rng.choices(TRANSLATION, k=60))}


async def one_session(url: str, seeds: range, pids: list[int], asked: argparse.Namespace) -> None:
    """All texts in one session, one page after the other; prints the memory periodically."""
    pages, every = asked.pages.split(","), max(1, asked.texts // 10)
    async with connected(url) as socket:
        for at, seed in enumerate(seeds):
            await change(socket, seed, pages[at % len(pages)], texts(seed, asked))
            if (at + 1) % every == 0:
                print(f"{at + 1:>5} texts in one session {cost(pids)[1]:>8.0f} MB", flush=True)


async def many_sessions(url: str, seeds: range, pids: list[int], asked: argparse.Namespace) -> None:
    """One session per text, closed after its page is drawn."""
    pages, every, compared = asked.pages.split(","), max(1, asked.sessions // 5), 0.0
    for at, seed in enumerate(seeds):
        async with connected(url) as socket:
            await change(socket, seed, pages[at % len(pages)], texts(seed, asked))
        if (at + 1) % every == 0:
            print(f"{at + 1:>5} sessions, closed     {cost(pids)[1]:>8.0f} MB", flush=True)
        if at + 1 == asked.compare:
            compared = cost(pids)[1]
    if compared:
        print(f"since session {asked.compare:<13}{cost(pids)[1] - compared:>+8.0f} MB", flush=True)


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--compare", type=int, default=0, help="the growth since this session")
    parser.add_argument("--model", default="", help="one of HEADLIGHT_MODELS")
    parser.add_argument("--words", type=int, default=95, help="of each text")
    parser.add_argument("--pages", default=",".join(page.name for page in PAGES))
    args = parser.parse_args()
    with running_app() as address:
        pids = tree(listening(int(address.rpartition(":")[2])))
        url = address.replace("http", "ws", 1)
        print(f"{'before':<27}{cost(pids)[1]:>8.0f} MB")
        asyncio.run(one_session(url, range(args.texts), pids, args))
        seeds = range(args.texts, args.texts + args.sessions)
        asyncio.run(many_sessions(url, seeds, pids, args))
        time.sleep(IDLE)
        print(f"{IDLE} seconds later           {cost(pids)[1]:>8.0f} MB")


if __name__ == "__main__":
    main()
