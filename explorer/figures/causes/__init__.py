"""Figures of the page Causes: sums as rankings, products of writers, what is said at each depth."""
