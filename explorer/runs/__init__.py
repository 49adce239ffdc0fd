"""One sentence through one model: its token rows, edits, the run itself, and its activations."""
