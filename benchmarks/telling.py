"""Sentences of a corpus on which the lead of each page is visibly true, for a first visit.

python -m benchmarks.telling zh-en --pairs en-zh.train.tsv
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from explorer.analysis.positions.order import four_texts
from explorer.exhibits.decoding.choices import DecodingChoices
from explorer.exhibits.saying import GUESS
from explorer.library import LoadedModel, open_model
from explorer.runs.edits import MaskSwitch
from explorer.runs.generation import generate
from explorer.runs.passes import walked
from explorer.runs.trace import trace
from models.strategies import Greedy
from models.training.data import read_pairs

SHORTEST, LONGEST = 5, 10  # tokens of a source
LEAST_ALIGNED = 0.6


def leads(loaded: LoadedModel, sentence: str) -> Iterator[tuple[str, bool]]:
    """What the pages say of a sentence, and whether it holds; the quickest first.

    `sure`: no token of the output is a guess. `causal`: without the causal mask, the output
    differs. `aligns`: the rows of one head have a mean largest weight of `LEAST_ALIGNED`. `beam`:
    beam search parts from greedy decoding. `order`: shuffled, the source has another output.
    """
    made = generate(loaded, sentence, Greedy())
    yield "sure", made.finished and min(step.chosen_prob for step in made.steps) >= GUESS
    edits = (MaskSwitch("causal", False),)
    yield "causal", generate(loaded, sentence, Greedy(), edits=edits).text != made.text
    run = trace(loaded, sentence)
    sites = run.sites_of("cross" if run.src_tokens else run.stack("tgt").role)
    rows = np.stack([run.pattern(site.name).max(-1).mean(-1) for site in sites])
    yield "aligns", bool(rows.max() > LEAST_ALIGNED)
    yield "beam", generate(loaded, sentence, DecodingChoices().beam).text != made.text
    texts = walked(four_texts(loaded, sentence, 1))
    yield "order", texts is not None and texts.in_order != texts.shuffled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--pairs", type=Path, required=True, help="English TAB Chinese")
    parser.add_argument("--tries", type=int, default=3000)
    args = parser.parse_args()
    loaded = open_model(args.model)
    pairs = [row if args.model.startswith("en") else row[::-1] for row in read_pairs(args.pairs)]
    known = {source: target for source, target in pairs}
    for source in random.Random(1).sample(sorted(known), min(args.tries, len(known))):
        if not SHORTEST <= len(loaded.tokenizer.encode(source)) <= LONGEST:
            continue
        is_good = generate(loaded, source, Greedy()).text == known[source]
        if is_good and all(holds for _, holds in leads(loaded, source)):
            print(source, known[source], sep="\t", flush=True)


if __name__ == "__main__":
    main()
