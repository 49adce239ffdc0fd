"""Asking, keeping, queueing, stopping: what is computed for visitors, in one thread at a time."""
