"""What the steps of the path find in a run."""
