"""Exhibits of the Positions page: how a model encodes word order, and what happens without it."""
