"""Patching: activations of one run put into another, and how much of the answer they recover."""
