"""Tasks that a user solves in code: their definitions, and the grading of answers."""
