"""Exhibits of Attention score: one score step by step, and what could be different."""
