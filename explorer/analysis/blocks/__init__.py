"""Norms, residual streams and hidden units, forward and backward."""
