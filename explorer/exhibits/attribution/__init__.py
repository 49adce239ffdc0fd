"""Exhibits of the Attribution page: why a head attends where it does, and what follows from it."""
