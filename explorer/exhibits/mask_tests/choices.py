"""Choices on the Mask tests page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import as_digit, choice, switch


@dataclass(frozen=True)
class MaskTestsChoices(PageChoices):
    """`tested`: the user has started the tests."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {"": ("mask_tests.tests",)}
    tested: bool = choice(False, switch, as_digit)
