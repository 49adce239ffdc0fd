"""Circuits of a model of one text: head types on synthetic sequences, and their level by chance."""
