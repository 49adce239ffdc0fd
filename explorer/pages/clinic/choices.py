"""Choices on the Clinic page (Pitfalls)."""

from dataclasses import dataclass

from explorer.exhibits.choices import choice


@dataclass(frozen=True)
class ClinicChoices:
    """`case` is the id of a pitfall; "" is the first one."""

    case: str = choice("", str)
