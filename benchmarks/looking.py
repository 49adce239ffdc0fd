"""Capture: the cost of recording every pattern, for a short sentence and for long ones.

The shipped translator reads 24 tokens; a model of the shape of GPT-2 small, with random weights,
reads up to 1,024. Compared are this library, without hooks and with every pattern recorded; a plain
torch loop, with the fused kernel and with explicit patterns; and `transformers` with eager
attention, in its own environment (see `peers.py`).

`python -m benchmarks.looking 1024` runs only that length; `python -m benchmarks.looking 1024
memory` measures the memory of each side, in its own process.
"""

import copy
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn

from benchmarks.decoding import REQUIREMENT, SHAPES
from benchmarks.peers import NoPeerError, Peer, environment
from benchmarks.resident import growth
from benchmarks.timing import medians, rows
from explorer.library import CHECKPOINTS
from models import load_checkpoint
from models.fast import speed_up
from models.hooks import Record, visiting
from models.rows import Rows
from models.transformer import DecoderOnly, Model, build_model

LENGTHS = {32: 15, 128: 9, 512: 5, 1024: 3}
"""Tokens of a text, and rounds in which all sides take turns."""


def run() -> Iterator[str]:
    """Lines of milliseconds: forward passes with and without recording."""
    model = load_checkpoint(CHECKPOINTS / "en-zh").model
    speed_up(model)
    src = torch.randint(4, model.config.vocab_size, (1, 24))
    tgt = torch.randint(4, model.config.vocab_size, (1, 24))
    given = Rows(tgt, src=src)
    plain = "forward pass, nobody looks (torch's fused attention)"
    times = medians(
        {
            plain: lambda: seen(model, given, None),
            "forward pass, every pattern captured": lambda: seen(model, given, "pattern"),
            "forward pass, every tensor captured": lambda: seen(model, given, ""),
            "load the checkpoint": lambda: load_checkpoint(CHECKPOINTS / "en-zh"),
        },
        runs=15,
    )
    yield from rows(times, plain)
    for length in LENGTHS:
        yield from beside_the_fused_kernel(length)


@torch.inference_mode()
def seen(
    model: Model, given: Rows, what: str | None, patterns: torch.dtype | None = None
) -> dict[str, Tensor]:
    """One pass that records the hook points with these suffixes, patterns in that dtype."""
    if what is None:
        model.read(given)
        return {}
    record = Record(lambda name: name.endswith(what), patterns=patterns)
    with visiting(record):
        model.read(given)
    return record.activations


@torch.inference_mode()
def by_hand(model: DecoderOnly, tokens: Tensor, fused: bool) -> list[Tensor]:
    """The same pass in plain torch; returns its patterns, none with `fused`."""
    n, kept = tokens.shape[1], list[Tensor]()
    blocked = torch.ones(n, n, dtype=torch.bool).triu(1)
    x = model.embed(tokens) + model.positions.weight[:n]
    for block in model.blocks:
        attn, h = block.attn, block.attn_norm(x)
        q, k, v = (
            part(h).view(1, n, attn.n_heads, attn.d_head).transpose(1, 2)
            for part in (attn.w_q, attn.w_k, attn.w_v)
        )
        if fused:
            z = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / attn.d_head**0.5
            pattern = scores.masked_fill(blocked, -torch.inf).softmax(-1)
            kept.append(pattern)
            z = pattern @ v
        x = x + attn.w_o(z.transpose(1, 2).reshape(1, n, -1))
        h = block.ffn_norm(x)
        x = x + block.ffn.w_down(nn.functional.gelu(block.ffn.w_up(h), approximate="tanh"))
    model.unembed(model.final_norm(x))
    return kept


FUSED = "torch's fused kernel"
UNSEEN = "ours, nobody looks"
KEPT = {"ours, every pattern": torch.float32, "ours, in float16": torch.float16}


def sides_of(length: int) -> tuple[Tensor, dict[str, Callable[[], object]]]:
    """Tokens of that length, and what reads them in this process, by name: our model as the app
    opens it, and its plain modules in a loop by hand."""
    torch.manual_seed(0)
    config = SHAPES["gpt2"]
    plain = build_model(config).eval()
    model = copy.deepcopy(plain)
    assert isinstance(plain, DecoderOnly)
    speed_up(model)  # as the app opens a model of this size, too large for packed copies
    tokens = torch.randint(4, config.vocab_size, (1, length))
    given = Rows(tokens)
    sides: dict[str, Callable[[], object]] = {
        FUSED: partial(by_hand, plain, tokens, fused=True),
        UNSEEN: partial(seen, model, given, None),
    }
    for name, dtype in KEPT.items():
        sides[name] = partial(seen, model, given, "hook_pattern", dtype)
    return tokens, sides | {"a loop by hand": partial(by_hand, plain, tokens, fused=False)}


def memory(length: int) -> Iterator[str]:
    """Lines of one length: growth of a fresh process in MB, while the patterns are held and at the
    peak (including logits and intermediate results)."""
    tokens, sides = sides_of(length)
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        grown = {name: pool.apply(_grown, (length, name)) for name in sides}
    try:
        peer = Peer(environment("transformers", REQUIREMENT), "transformers_peer.py")
        asked = {"shape": "gpt2", "read": tokens[0].tolist(), "memory": True}
        grown["transformers, eager"] = peer.ask(asked)
        peer.close()
    except NoPeerError as problem:
        yield f"transformers left out: {problem}"
    for name, by in grown.items():
        kept, peak = (f"{by[what]:7.0f} MB" for what in ("kept", "peak"))
        yield f"{length:>5} tokens, {name:<24} kept {kept}, at the most {peak}"


def _grown(length: int, name: str) -> dict[str, float]:
    """In a process of its own: one side, after a pass over eight tokens."""
    torch.set_num_threads(1)
    sides_of(8)[1][name]()
    _, sides = sides_of(length)
    return growth(sides[name])


def beside_the_fused_kernel(length: int) -> Iterator[str]:
    """Lines of one length: milliseconds, and the ratio to the fused kernel in plain torch and to
    our model without hooks."""
    tokens, sides = sides_of(length)
    peer: Peer | None = None
    try:
        peer = Peer(environment("transformers", REQUIREMENT), "transformers_peer.py")
    except NoPeerError as problem:
        yield f"transformers left out: {problem}"
    seconds: dict[str, list[float]] = {}
    asked = {"shape": "gpt2", "read": tokens[0].tolist()}
    for counted in range(-1, LENGTHS[length]):
        took = {name: _seconds(side) for name, side in sides.items()}
        if peer is not None:
            took["transformers, eager"] = float(peer.ask(asked)["seconds"])
        for name, value in took.items():
            seconds.setdefault(name, []).extend([value] if counted >= 0 else [])
    if peer is not None:
        peer.close()
    for name, values in seconds.items():
        fused, unseen = (
            median(a / b for a, b in zip(values, seconds[other], strict=True))
            for other in (FUSED, UNSEEN)
        )
        spread = f"{1000 * min(values):.0f} to {1000 * max(values):.0f}"
        yield (
            f"{length:>5} tokens, {name:<22} {fused:5.2f} x the fused kernel, {unseen:5.2f} x ours "
            f"unseen   {1000 * median(values):8.1f} ms ({spread})"
        )


def _seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) < 2:
        lines = run()
    else:
        measured = memory if sys.argv[2:] == ["memory"] else beside_the_fused_kernel
        lines = measured(int(sys.argv[1]))
    for line in lines:
        print(line, flush=True)
