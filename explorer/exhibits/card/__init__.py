"""Exhibits of the Card page: facts about the open model, and its author's description."""
