"""Which rule blocked which cell, and what changed masks do to the same tokens."""
