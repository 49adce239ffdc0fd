"""Which word translates which: cross-attention between words, its heads, links, and checks."""
