"""Word alignment: cross-attention between words, the heads that align, links, and their evaluation."""
