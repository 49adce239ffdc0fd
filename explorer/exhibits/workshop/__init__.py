"""Exhibits of the Workshop page (Exercises): programs are graded, drawn and put into the model."""
