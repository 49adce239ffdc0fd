"""Figures of the page Causes: ranked terms, products of writers, predictions at each depth."""
