"""The fixture of these tests stands beside what they share."""

from seen_lines import seen

__all__ = ["seen"]
