"""Figures of circuits: how heads read the output of other heads."""
