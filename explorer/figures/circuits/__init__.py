"""Figures of circuits: how heads read each other."""
