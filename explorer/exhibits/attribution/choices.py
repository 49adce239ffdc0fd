"""Choices on the Attribution page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits import PageChoices, View
from explorer.exhibits.attribution.place import telling
from explorer.exhibits.choices import as_digit, choice, switch, unlinked, whole


@dataclass(frozen=True)
class AttributionChoices(PageChoices):
    """`beside_key` is the key that the cell is compared with (None: none). `word` and `rival` are
    the ids of the two compared words (None: the predicted one, and the runner-up); `alone`: the
    logit without comparison. `filmed`: the lens over the steps of decoding. `typed` is a word that
    is no token.
    """

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "why": ("attribution.why",),
        "writes": ("attribution.writes", "attribution.one_head"),
        "lens": ("attribution.lens",),
    }
    pictures: ClassVar[tuple[str, ...]] = ("sublayers", "singles", "chance", "ranked", "distance")
    beside_key: int | None = choice(None, whole(0, 999), of_site=True)
    word: int | None = choice(None, whole(0, 9_999_999))
    rival: int | None = choice(None, whole(0, 9_999_999))
    alone: bool = choice(False, switch, as_digit)
    filmed: bool = choice(False, switch, as_digit)
    typed: str = unlinked("")

    @staticmethod
    def opens(view: View) -> View:
        """Another head and query, if the user has chosen none."""
        return telling(view)
