"""Exhibits of the Training page: a Transformer that learns in a process of its own."""
