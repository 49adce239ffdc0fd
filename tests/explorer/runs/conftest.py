"""Models that are tables, for the tests of what decodes with them."""

from tables import chain, random_chain, wide_model

__all__ = ["chain", "random_chain", "wide_model"]
