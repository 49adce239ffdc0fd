"""What is random in a case: text, bytes and values, damaged or far too long."""

import random
from typing import Any

MODELS = ("copy", "sort", "twin-right", "masked-en")
ODD = (
    "\0\a\x1b\x7f\u200b\u200d\u202e\u2028\ufeff\ufffd\ud800\U0001f469\U0001f3fd\U0010ffff"
    "e\u0301ßİﬁ٣你的是我，。अम العربية <b>&amp;</b>$$\\text{}{0}%s'\"`|~._-/\\"
)
SEEDS = (
    "I love you because you are kind.", "a b c d", "我喜欢你。", "Once upon a time", "[MASK] is it",
    "<s> </s> <pad>", "../../etc/passwd", "causal-off~window-4~head-decoder.blocks.0.attn-3",
    "cells-decoder-all-shut-3.1-3.2", "1e309", "-1", "nan", "99999999999999999999", "0000000000999",
    "n_heads-3~norm-rmsnorm~rate-1e9", "look.2.1.k3f~rest.1.0.9ab", "3-2_4-3", "",
)  # fmt: skip


def words(rng: random.Random, longest: int = 300) -> str:
    """Text: a seed, damaged, or characters of many kinds; now and then far too long."""
    if rng.random() < 0.02:
        return rng.choice(("a", "a ", "你", "\u0301", "((")) * rng.randrange(100_000)
    text = list(rng.choice(SEEDS))
    for _ in range(rng.randrange(12)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(4):
            case 0:
                text.insert(at, rng.choice(ODD))
            case 1:
                text.insert(at, chr(rng.choice((rng.randrange(128), rng.randrange(0x110000)))))
            case 2:
                text[at:] = rng.choice(SEEDS)
            case _:
                del text[at : at + rng.randrange(4)]
    return "".join(text)[:longest]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Bytes with some changed, cut, doubled or put in."""
    found = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(5):
            case 0:
                found[at:at] = rng.randbytes(rng.randrange(8))
            case 1 if at < len(found):
                found[at] ^= 1 << rng.randrange(8)
            case 2:
                del found[at : at + rng.randrange(64)]
            case 3:
                found[at:at] = found[at : at + rng.randrange(256)]
            case _ if rng.random() < 0.2:
                del found[at:]
    return bytes(found)


def value(rng: random.Random, depth: int = 2) -> Any:
    """Anything that JSON can say."""
    kind = rng.randrange(8 if depth else 6)
    if kind == 6:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 7:
        return {words(rng, 9): value(rng, depth - 1) for _ in range(rng.randrange(4))}
    number = rng.choice((0, 1, -1, 2, 3, 10**9, 10**30, 0.5, 1e308, float("inf"), float("nan")))
    return (None, True, number, number, rng.randrange(6), words(rng, 20))[kind]
