"""A model's card: facts read from the model itself, and its author's text."""
