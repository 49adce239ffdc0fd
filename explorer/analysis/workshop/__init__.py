"""Tasks that a visitor solves in code: what they ask, and how an answer is judged."""
