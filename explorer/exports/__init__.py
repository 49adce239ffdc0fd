"""Exports: archives, tables, SVGs, previews, reports."""
