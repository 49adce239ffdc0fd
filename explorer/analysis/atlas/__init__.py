"""The atlas of a model: what each head does over a whole corpus."""
