"""Word alignment: cross-attention between words, aligning heads, links and their evaluation."""
