"""Headlight's explorer: one sentence through one model, and everything that can be seen of it."""
