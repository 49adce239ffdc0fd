"""Exhibits of the Atlas page: what each head does over a corpus, and its best sentences."""
