"""Exports: archives, tables, SVGs, code snippets, reports."""
