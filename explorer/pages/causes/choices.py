"""What a visitor chooses on the Causes page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits.choices import as_digit, choice, one_of, switch, whole


@dataclass(frozen=True)
class CausesChoices:
    """`beside_key` is the key that the cell is compared with (None: none). `side` and `taken` name
    what is taken out: a writer into the query or the key, or one of those of a logit. `word` and
    `rival` are the ids of the two words compared (None: the written one, and the runner-up);
    `alone`: the logit by itself. `filmed`: the lens along a decoding.
    """

    parts: ClassVar[tuple[str, ...]] = ("why", "writes", "lens")
    pictures: ClassVar[tuple[str, ...]] = ("sublayers", "singles", "chance", "ranked", "distance")
    beside_key: int | None = choice(None, whole(0, 999), of_site=True)
    side: str = choice("query", one_of(("query", "key")))
    taken: int | None = choice(None, whole(0, 9999), of_site=True)
    word: int | None = choice(None, whole(0, 9_999_999))
    rival: int | None = choice(None, whole(0, 9_999_999))
    alone: bool = choice(False, switch, as_digit)
    filmed: bool = choice(False, switch, as_digit)
