"""Figures of positions: what encodes them, the sum with the token, rotation."""
