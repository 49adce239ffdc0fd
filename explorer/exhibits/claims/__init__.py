"""Exhibits of the Claims page: a guess first, then the experiment runs."""
