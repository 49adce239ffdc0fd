"""Circuits of a model of one text: what heads do on made-up rows, and how they read each other."""
