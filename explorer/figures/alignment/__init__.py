"""Figures of word alignment: lines between two texts, links on a matrix, heads by score."""
