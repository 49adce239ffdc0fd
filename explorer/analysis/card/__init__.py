"""A model's card: what the model itself tells, and what its author wrote."""
