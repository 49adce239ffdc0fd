"""Exhibits of the Exercises page: programs are graded, drawn and put into the model."""
