"""Every part of a model, its parameters and its cost by length."""
