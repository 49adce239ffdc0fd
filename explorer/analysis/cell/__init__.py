"""One query and one key of one head, step by step, and other designs of the same attention."""
