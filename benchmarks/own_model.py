"""Server time for a new sentence, with the user's own model or a shipped one.

`python -m benchmarks.own_model FOLDER` opens the model and requests the page Heads, as Streamlit
runs it, for new sentences of 64 tokens and for other layers of the last one. It also prints the
time of the model's forward pass over the same tokens. `--tokens N` sets another length.

`--kept N` only requests N texts, and prints after each the size of the cache and the growth of the
process since the model was opened.
"""

import argparse
import gc
import os
import statistics
import time
from pathlib import Path
from unittest.mock import patch

import torch
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.testing.v1 import AppTest

from benchmarks.resident import resident
from benchmarks.timing import quantiles_row
from explorer.engine import caching
from explorer.library import open_model
from explorer.runs.inputs import given_tokens
from models.foreign.finding import VARIABLE

WORDS = "The quick brown fox jumps over the lazy dog and runs away from it because she is tired"


def _page() -> None:
    from explorer.pages import PAGES
    from explorer.shell import LINKS, show
    from explorer.ui import session

    session.start(LINKS)
    show(next(page for page in PAGES if page.name == "heads"))


def main() -> None:
    """Print the medians of five rounds on one thread."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--kept", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    folder = args.folder.resolve()
    os.environ[VARIABLE] = str(folder)
    loaded = open_model(folder)
    words = (WORDS.split() * 100)[: args.tokens + 20]

    def text(turn: int) -> str:
        """A text of the requested number of tokens, in a different order each time."""
        turned = words[turn:] + words[:turn]
        while len(given_tokens(loaded, " ".join(turned))) > args.tokens:
            turned.pop()
        return " ".join(turned)

    passes, sentences, layers = [], [], []
    at = AppTest.from_function(_page, default_timeout=600)
    at.query_params["model"] = folder.stem
    if args.kept:
        _show_kept(folder.stem, [text(turn) for turn in range(args.kept)])
        return
    for turn in range(7):  # the first turns warm up
        rows = loaded.model.begin(torch.tensor([given_tokens(loaded, text(turn))]))
        started = time.perf_counter()
        with torch.inference_mode():
            loaded.model.read(rows)
        passed = time.perf_counter() - started
        at.query_params["text"] = text(turn)
        started = time.perf_counter()
        at.run()
        took = time.perf_counter() - started
        assert not at.exception
        for layer in (2, 5, 9):
            at.query_params["layer"] = str(layer)
            started = time.perf_counter()
            at.run()
            if turn > 1:
                layers.append(time.perf_counter() - started)
        if turn > 1:
            passes.append(passed)
            sentences.append(took)
    bound = 1.3 * statistics.median(passes) + 0.3
    print(quantiles_row(f"its own forward pass, {args.tokens} tokens", passes))
    print(quantiles_row("a new sentence on Heads", sentences))
    print(f"1.3 x the forward pass + 0.3 s: {1000 * bound:.1f} ms")
    print(quantiles_row("another layer", layers))
    print(f"kept besides the open model: {_kept():.0f} MB")


def _kept() -> float:
    """The size of the cache in MB."""
    return sum(store.n_bytes for store in (caching.STORE, caching.PARTS)) / 1e6


def _visit(model: str, text: str) -> None:
    """One AppTest without downloads: unlike a server, AppTest never releases them or their data."""
    at = AppTest.from_function(_page, default_timeout=600)
    at.query_params["model"], at.query_params["text"] = model, text
    with patch.object(MediaFileManager, "add_deferred", lambda *_, **__: "none"):
        assert not at.run().exception
    del at
    gc.collect()  # as Streamlit does after each run


def _show_kept(model: str, texts: list[str]) -> None:
    """Read each text in its own session, and print the memory after each."""
    _visit(model, "Hi")  # the model is open, and everything imported
    before = resident()
    print(f"the process with the model: {before:.0f} MB")
    for number, text in enumerate(texts, 1):
        started = time.perf_counter()
        _visit(model, text)
        took = time.perf_counter() - started
        grown = f"the process has grown by {resident() - before:.0f} MB"
        print(f"{number}: {took:.1f} s, kept {_kept():.0f} MB, {grown}", flush=True)


if __name__ == "__main__":
    main()
