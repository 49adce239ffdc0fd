"""What a visitor takes away: an archive, a snippet of code, a report."""
