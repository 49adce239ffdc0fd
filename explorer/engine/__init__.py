"""Requests, cache, queue and cancellation: computations for users, one thread at a time."""
