"""What each head of a model does over a whole corpus: its atlas."""
