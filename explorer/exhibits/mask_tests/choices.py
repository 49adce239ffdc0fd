"""Choices of the mask tests, on the page of cases."""

from dataclasses import dataclass

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import as_digit, choice, switch


@dataclass(frozen=True)
class MaskTestsChoices(PageChoices):
    """`tested`: the user has started the tests."""

    tested: bool = choice(False, switch, as_digit)
