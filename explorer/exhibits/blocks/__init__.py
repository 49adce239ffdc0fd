"""Exhibits of the Blocks page: norms, their placement, and the feed-forward network."""
