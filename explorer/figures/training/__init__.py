"""Figures of a running training: its curves, and its heads as they form."""
