"""The computations of the page Attribution for a sentence of 13 tokens, without the cache."""

import sys

import torch

from benchmarks.timing import medians
from explorer.analysis.attribution.why import why
from explorer.analysis.attribution.writes import next_word, runner_up, writes
from explorer.exhibits.attribution.lens import lens
from explorer.exhibits.attribution.one_head import pushes
from explorer.library import open_model
from explorer.runs.passes import walked
from explorer.runs.trace import trace

TEXT = "She reads a book every morning before she goes out."


def run(model: str = "en-zh") -> list[str]:
    """Lines of milliseconds, excluding opening the model and the run itself."""
    loaded = open_model(model)
    traced = trace(loaded, TEXT)
    site, position = traced.sites[-1], 1
    word = next_word(traced, position)
    other = runner_up(traced, position, word)
    times = medians(
        {
            "why there": lambda: walked(why(loaded, traced, site, 0, position, 0)),
            "what it writes": lambda: walked(writes(loaded, traced, position, word, other)),
            "what it writes, one head by keys": lambda: (
                walked(writes(loaded, traced, position, word, other, (site.name, 0))),
                walked(pushes(loaded, traced, site, 0, position)),
            ),
            "lens": lambda: walked(lens(loaded, traced)),
        }
    )
    return [f"{name:<58} {1000 * value:9.1f} ms" for name, value in times.items()]


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(*run(*sys.argv[1:]), sep="\n")
