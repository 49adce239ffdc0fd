"""Exhibits of the Circuits page: what heads do, and how they work together."""
