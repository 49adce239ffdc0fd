"""The Code panel, and the functions that it shows."""
