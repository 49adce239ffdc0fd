"""Exhibits of the Certificate page: behavioural tests of a model's masks."""
