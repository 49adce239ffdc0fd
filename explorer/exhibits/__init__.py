"""Exhibits, one question and its picture per file, and what all exhibits share."""
