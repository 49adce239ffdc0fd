"""Patching: an activation of one run put into another, and what of the answer comes with it."""
