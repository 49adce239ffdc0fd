"""Choices on the Certificate page."""

from dataclasses import dataclass

from explorer.exhibits.choices import as_digit, choice, switch


@dataclass(frozen=True)
class CertificateChoices:
    """`tested`: the user has started the tests."""

    tested: bool = choice(False, switch, as_digit)
