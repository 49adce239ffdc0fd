"""Exhibits of bugs and claims: what runs, next to what, and what comes out."""
