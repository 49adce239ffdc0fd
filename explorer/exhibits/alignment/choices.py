"""Choices on the Alignment page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import choice, one_of

NO_MODEL = "none"
WRITES, READS = ROWS = ("write", "read")
"""Names in links for the two shifts of `analysis.alignment.reading`."""


@dataclass(frozen=True)
class AlignmentChoices(PageChoices):
    """`aligner` is the source of links: a learned mean, the best head, or the open head ("": the
    one with higher agreement on held-out sentences). `word_row` is the row of that head, `back` the
    reverse model ("": found by its name)."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "words": ("alignment.words",),
        "matrices": ("alignment.matrices",),
    }
    aligner: str = choice("", one_of(("mean", "best", "head")))
    word_row: str = choice(READS, one_of(ROWS))
    back: str = choice("", str)
