"""Exhibits of the Cell page: one attention score step by step, and what could be different."""
