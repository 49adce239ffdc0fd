"""Exhibits of the page Row entropy."""
