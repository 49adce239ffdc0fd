"""Figures of what a block consists of: its norms, its residual stream, its feed-forward net."""
