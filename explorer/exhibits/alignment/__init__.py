"""Exhibits of the Alignment page: word alignment from cross-attention."""
