"""Models that are tables, for the tests of objectives."""

from tables import chain

__all__ = ["chain"]
