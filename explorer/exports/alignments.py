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


def to_moses(alignments: Sequence[Alignment]) -> str:
    """One line per pair, `0-0 1-2`: source word, target word, counted from 0."""
    return "".join(f"{pair.moses}\n" for pair in alignments)


def to_words(alignments: Sequence[Alignment]) -> tuple[str, str]:
    """The source and target texts, one line per pair, with a space between the words that the
    numbers of `to_moses` count."""
    source = "".join(f"{' '.join(pair.src)}\n" for pair in alignments)
    return source, "".join(f"{' '.join(pair.tgt)}\n" for pair in alignments)


def to_record(alignment: Alignment) -> dict[str, object]:
    """One pair as plain values; links are [source, target], sorted by source."""
    return {
        "source": alignment.pair[0],
        "target": alignment.pair[1],
        "source_words": list(alignment.src),
        "target_words": list(alignment.tgt),
        "method": alignment.method,
        "links": [[src, tgt] for tgt, src in _in_order(alignment)],
        "moses": alignment.moses,
        "weights": [[round(float(cell), 4) for cell in row] for row in alignment.weights],
    }


def to_json(alignments: Sequence[Alignment]) -> str:
    """All pairs as one JSON list, one pair per line."""
    lines = (json.dumps(to_record(pair), ensure_ascii=False) for pair in alignments)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def to_csv(alignments: Sequence[Alignment]) -> str:
    """One line per link, with the header COLUMNS; pairs and words are counted from 0."""
    rows = (
        [number, src, tgt, pair.src[src], pair.tgt[tgt], pair.source(tgt, src), weight]
        for number, pair in enumerate(alignments)
        for tgt, src in _in_order(pair)
        for weight in [f"{pair.weights[tgt, src]:.4f}"]
    )
    return to_rows(COLUMNS, rows)


def _in_order(alignment: Alignment) -> list[tuple[int, int]]:
    """(target, source) of every link, sorted by source, then by target."""
    links = [
        (src, tgt) for tgt, row in enumerate(alignment.links) for src in row.nonzero()[0].tolist()
    ]
    return [(tgt, src) for src, tgt in sorted(links)]
