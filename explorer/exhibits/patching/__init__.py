"""Exhibits of the Patching page: activations of one run in another, and the flow to a word."""
