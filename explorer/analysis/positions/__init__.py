"""Positions in numbers: the encodings, what changing them does, and rotations up close."""
