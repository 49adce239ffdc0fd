"""Pictures of a training while it runs: its curves, and its heads as they form."""
