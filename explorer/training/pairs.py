"""Pairs that a user pastes or uploads: the usable ones, and a count of the others."""

from dataclasses import dataclass
from itertools import chain

from models.training.columns import names_pair

MOST_PAIRS = 5000
"""Pairs used for training; further ones are dropped, and counted."""
MOST_SIDE = 200
"""Maximum number of characters per side."""
MOST_CHARS, MOST_LINES = 500_000, 20_000
"""Maximum numbers of characters and lines read: in 50 ms, since this runs in the app's process."""
REASONS = ("header", "no_tab", "empty", "too_long", "doubled", "too_many")
"""Reasons to drop a row; "header": the first one names the columns."""
FEWEST = 2
FEW = 50
"""Up to this many pairs, a model mostly memorises."""


@dataclass(frozen=True)
class PairCounts:
    """The number of usable pairs and of those with two equal sides; and of dropped rows, by
    reason."""

    used: int
    same_sides: int
    left_out: dict[str, int]


@dataclass(frozen=True)
class Pairs:
    """The usable pairs of a text, and how many there are."""

    rows: tuple[tuple[str, str], ...]
    counts: PairCounts


def read(text: str) -> Pairs:
    """The pairs of a text: one per line, source TAB target; further columns are ignored.

    Blank lines and a header are skipped. White space is single blanks, as the tokenizer of a model
    that is trained here reads it. Only the first of equal pairs counts.
    """
    seen: dict[tuple[str, str], None] = {}
    counts = dict.fromkeys(REASONS, 0)
    lines = text[:MOST_CHARS].splitlines()
    for line in lines[:MOST_LINES]:
        if not line.strip():
            continue
        source, tab, target = line.partition("\t")
        pair = (" ".join(source.split()), " ".join(target.partition("\t")[0].split()))
        if not tab:
            counts["no_tab"] += 1
        elif not seen and not any(counts.values()) and names_pair(pair):
            counts["header"] = 1
        elif not all(pair):
            counts["empty"] += 1
        elif max(map(len, pair)) > MOST_SIDE:
            counts["too_long"] += 1
        elif pair in seen:
            counts["doubled"] += 1
        elif len(seen) == MOST_PAIRS:
            counts["too_many"] += 1
        else:
            seen[pair] = None
    rest = chain(lines[MOST_LINES:], text[MOST_CHARS:].splitlines())
    counts["too_many"] += sum(bool(line.strip()) for line in rest)
    same = sum(source == target for source, target in seen)
    left_out = {reason: count for reason, count in counts.items() if count}
    return Pairs(tuple(seen), PairCounts(len(seen), same, left_out))
