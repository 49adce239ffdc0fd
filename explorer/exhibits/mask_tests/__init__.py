"""Exhibits of the Mask tests page: behavioural tests of a model's masks."""
