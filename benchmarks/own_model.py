"""What a sentence costs in a model of one's own, on the server.

`python -m benchmarks.own_model FOLDER` opens the model and asks the page Heads, as Streamlit runs
it, for new sentences of 64 tokens and for other layers of the last one. Beside them stands the
model's own forward pass over the same tokens. `--tokens N` is another length.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

import torch
from streamlit.testing.v1 import AppTest

from benchmarks.timing import quantiles_row
from explorer.library import open_model
from explorer.runs.inputs import continued_tokens, rows_of
from explorer.ui.work import caching
from models.foreign.finding import VARIABLE

WORDS = "The quick brown fox jumps over the lazy dog and runs away from it because she is tired"


def _page() -> None:
    from explorer.pages import PAGES
    from explorer.shell import LINKS, show
    from explorer.ui import session

    session.start(LINKS)
    show(next(page for page in PAGES if page.name == "heads"))


def main() -> None:
    """Print the medians of five turns, one thread."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, default=64)
    args = parser.parse_args()
    torch.set_num_threads(1)
    folder = args.folder.resolve()
    os.environ[VARIABLE] = str(folder)
    loaded = open_model(folder)
    words = (WORDS.split() * 100)[: 2 * args.tokens]

    def text(turn: int) -> str:
        """So many tokens, in another order each time."""
        turned = words[turn:] + words[:turn]
        while len(continued_tokens(loaded, " ".join(turned))) > args.tokens:
            turned.pop()
        return " ".join(turned)

    passes, sentences, layers = [], [], []
    at = AppTest.from_function(_page, default_timeout=600)
    at.query_params["model"] = folder.stem
    for turn in range(7):  # the first turns warm up
        rows = rows_of(loaded, continued_tokens(loaded, text(turn)))
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
    kept = sum(store.n_bytes for store in (caching.STORE, caching.PARTS))
    print(f"kept besides the open model: {kept / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
