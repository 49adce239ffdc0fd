"""What every page shares: the view and its state, the link, the controls, the caches."""
