"""Benchmarks (`make bench`): Headlight and a public alternative do the same work in one run."""
