"""Decoding 64 tokens, every pattern captured or none: Headlight and `transformers`, in tokens/s.

Two shapes with random weights, alike on both sides: 6 + 6 layers, d_model 512, 8 heads, 8,000
tokens; and GPT-2 small. `transformers` runs in an environment of its own (see `peers.py`); where it
cannot be installed, its columns say why. `python -m benchmarks.decoding 6+6 "beam 4, cache"` runs
that row alone.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch

from benchmarks.peers import NoPeerError, Peer, environment
from models.config import ModelConfig
from models.decoding import decode
from models.fast import lay_out_for_decoding
from models.hooks import LOGITS, Edits, Record, visiting
from models.strategies import Beam, Greedy, Strategy
from models.transformer import Model, build_model

REQUIREMENT = "transformers>=5,<6"
N_SRC, N_NEW, ROUNDS = 16, 64, 5
SHAPES = {
    "6+6": ModelConfig(vocab_size=8000, d_model=512, n_layers=6, n_heads=8, d_ff=2048),
    "gpt2": ModelConfig(
        family="decoder-only",
        vocab_size=50257,
        d_model=768,
        n_layers=12,
        n_heads=12,
        d_ff=3072,
        n_ctx=1024,
        positions="learned",
        norm_placement="pre",
        final_norm=True,
        ffn="gelu_tanh",
        scale_embeddings=False,
    ),
}
CASES = [
    # name, strategy, beams, cache, rounds
    ("greedy, cache", Greedy(), 1, True, ROUNDS),
    ("beam 4, cache", Beam(width=4), 4, True, ROUNDS),
    ("greedy, no cache", Greedy(), 1, False, 1),
    ("beam 4, no cache", Beam(width=4), 4, False, 1),
]


def run(only_shape: str = "", only_case: str = "") -> Iterator[str]:
    """Lines of tokens per second: the median of rounds in which all sides take turns.

    Only shapes and cases whose names begin with the arguments are run; by default all.
    """
    yield f"torch threads: {torch.get_num_threads()}; {N_SRC} tokens given, {N_NEW} written"
    peer: Peer | None = None
    try:
        peer = Peer(environment("transformers", REQUIREMENT), "transformers_peer.py")
    except NoPeerError as problem:
        yield f"transformers left out: {problem}"
    try:
        for shape, config in SHAPES.items():
            if not shape.startswith(only_shape):
                continue
            torch.manual_seed(0)
            model = build_model(config).eval()
            lay_out_for_decoding(model)  # as every model that the app opens
            for name, strategy, beams, cached, rounds in CASES:
                if not name.startswith(only_case):
                    continue
                yield _row(shape, name, model, strategy, beams, cached, rounds, peer)
    finally:
        if peer is not None:
            peer.close()


def _row(
    shape: str,
    name: str,
    model: Model,
    strategy: Strategy,
    beams: int,
    cached: bool,
    rounds: int,
    peer: Peer | None,
) -> str:
    tokens = torch.randint(4, model.config.vocab_size, (1, N_SRC))
    sides: dict[str, Callable[[], float]] = {
        "ours": lambda: _seconds(model, tokens, strategy, cached, captured=False),
        "ours, patterns": lambda: _seconds(model, tokens, strategy, cached, captured=True),
    }
    if peer is not None:
        asked = {"shape": shape, "tokens": tokens[0].tolist(), "new": N_NEW, "beams": beams}
        asked |= {"cache": cached, "patterns": True}
        sides["transformers, patterns"] = lambda: float(peer.ask(asked)["seconds"])
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for counted in range(-1 if rounds > 1 else 0, rounds):
        for side, measure in sides.items():
            took = measure()
            if counted >= 0:
                seconds[side].append(took)
    median = {side: statistics.median(values) for side, values in seconds.items()}
    words = [f"{side} {N_NEW / value:6.1f} tokens/s" for side, value in median.items()]
    # Compare round by round: other load on the machine affects both sides of a round.
    cost = statistics.median(
        with_ / without
        for with_, without in zip(seconds["ours, patterns"], seconds["ours"], strict=True)
    )
    words.append(f"capture costs {100 * (cost - 1):+.1f} %")
    if peer is not None:
        times = statistics.median(
            theirs / ours
            for theirs, ours in zip(
                seconds["transformers, patterns"], seconds["ours, patterns"], strict=True
            )
        )
        words.append(f"{times:.2f} x transformers")
    return f"{shape:<5} {name:<17} " + "; ".join(words)


def _seconds(
    model: Model, tokens: torch.Tensor, strategy: Strategy, cached: bool, captured: bool
) -> float:
    """Seconds to decode N_NEW tokens; `captured` records every pattern of every step."""
    # Random weights hardly ever predict the end token; disable it on both sides.
    end = model.marks.end
    never = Edits({LOGITS: lambda logits: logits.index_fill_(-1, torch.tensor(end), -1e9)})
    patterns = {site.hook("pattern") for site in model.attention_sites()}
    kept = []
    started = time.perf_counter()
    steps = decode(model, tokens, strategy, N_NEW, use_cache=cached)
    for _ in range(N_NEW):
        record = Record(patterns.__contains__ if captured else _nothing, never)
        with visiting(record):
            next(steps)
        kept.append(record.activations)
    seconds = time.perf_counter() - started
    assert len(kept) == N_NEW
    assert all(bool(each) == captured for each in kept)
    return seconds


def _nothing(name: str) -> bool:
    return False


if __name__ == "__main__":
    torch.set_num_threads(1)
    for row in run(*sys.argv[1:]):
        print(row, flush=True)
