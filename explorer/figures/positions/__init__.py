"""Figures of positions: encodings, the sum with the token embedding, rotation."""
