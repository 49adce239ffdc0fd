"""Export alignments: Moses format with tokenised texts, JSON, CSV."""

import json
from collections.abc import Sequence

from explorer.analysis.alignment.aligned import Alignment
from explorer.exports.archive import to_rows

COLUMNS = (
    "pair",
    "source_index",
    "target_index",
    "source_word",
    "target_word",
    "found_by",
    "weight",
)


def to_moses(found: Sequence[Alignment]) -> str:
    """One line per pair, `0-0 1-2`: source word, target word, counted from 0."""
    return "".join(f"{each.moses}\n" for each in found)


def to_words(found: Sequence[Alignment]) -> tuple[str, str]:
    """The source and target texts, one line per pair, with a space between the words that the
    numbers of `to_moses` count."""
    source = "".join(f"{' '.join(each.src)}\n" for each in found)
    return source, "".join(f"{' '.join(each.tgt)}\n" for each in found)


def to_record(each: Alignment) -> dict[str, object]:
    """One pair as plain values; links are [source, target], sorted by source."""
    return {
        "source": each.pair[0],
        "target": each.pair[1],
        "source_words": list(each.src),
        "target_words": list(each.tgt),
        "method": each.method,
        "links": [[src, tgt] for tgt, src in _in_order(each)],
        "moses": each.moses,
        "weights": [[round(float(cell), 4) for cell in row] for row in each.weights],
    }


def to_json(found: Sequence[Alignment]) -> str:
    """All pairs as one JSON list, one pair per line."""
    lines = (json.dumps(to_record(each), ensure_ascii=False) for each in found)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def to_csv(found: Sequence[Alignment]) -> str:
    """One line per link, with the header COLUMNS; pairs and words are counted from 0."""
    rows = (
        [number, src, tgt, each.src[src], each.tgt[tgt], each.source(tgt, src), weight]
        for number, each in enumerate(found)
        for tgt, src in _in_order(each)
        for weight in [f"{each.weights[tgt, src]:.4f}"]
    )
    return to_rows(COLUMNS, rows)


def _in_order(each: Alignment) -> list[tuple[int, int]]:
    """(target, source) of every link, sorted by source, then by target."""
    found = [(src, tgt) for tgt, row in enumerate(each.links) for src in row.nonzero()[0].tolist()]
    return [(tgt, src) for src, tgt in sorted(found)]
