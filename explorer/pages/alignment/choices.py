"""What a visitor chooses on the Alignment page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.analysis.alignment.links import METHODS, Method
from explorer.exhibits.choices import choice, one_of

NO_MODEL = "none"
USUAL_METHOD: Method = "grow-diag-final-and"
WRITES, READS = ROWS = ("write", "read")
"""Links' words for the two shifts of `analysis.alignment.reading`."""


@dataclass(frozen=True)
class AlignmentChoices:
    """`aligner` is what links are read off: a learned mean, the best head, or the head that is
    open ("": what agrees more on sentences held out), `word_row` the row of that head, `symmetrise`
    how both directions become one, `back` the model of the other direction ("": found by its name).
    """

    parts: ClassVar[tuple[str, ...]] = ("words", "matrices", "without", "file")
    aligner: str = choice("", one_of(("mean", "best", "head")))
    word_row: str = choice(READS, one_of(ROWS))
    symmetrise: Method = choice(USUAL_METHOD, one_of(METHODS))
    back: str = choice("", str)
