"""Exhibits of the Masks page: which rule blocks which cell, and the effect of changed masks."""
