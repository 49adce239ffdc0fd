"""One attention score, step by step: one query and key of one head, and other implementations."""
