"""Exhibits of the Pitfalls page: wrong code next to the right one, and its effect."""
