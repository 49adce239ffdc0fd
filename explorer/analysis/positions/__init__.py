"""Positional encodings in numbers: the encodings, the effect of changing them, rotations."""
