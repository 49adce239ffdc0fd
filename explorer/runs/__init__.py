"""One sentence through one model: its rows, edits, the run itself, and what it left behind."""
