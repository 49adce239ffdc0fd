"""Exhibits of the Causes page: why a head attends where it does, and what follows from it."""
