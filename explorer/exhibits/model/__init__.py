"""Exhibits of the Model page: its parts, their parameters and cost, and further questions."""
