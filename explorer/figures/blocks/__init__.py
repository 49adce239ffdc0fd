"""Figures of the parts of a block: norms, residual stream, feed-forward network."""
