"""Models that are tables, for the tests of decoding."""

from tables import chain, only, random_chain, table_model, wide_model

__all__ = ["chain", "only", "random_chain", "table_model", "wide_model"]
