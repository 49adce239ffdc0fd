"""Code shared by all pages: the view and its state, the link, the controls, the caches."""
