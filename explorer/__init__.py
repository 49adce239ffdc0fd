"""Headlight's explorer: one sentence through one model, and everything that can be seen of it."""

__version__ = "0.1.0"
