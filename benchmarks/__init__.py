"""Timings: `make bench`. The same work by Headlight and by a public alternative, in one run."""
