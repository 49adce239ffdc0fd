"""What the picture of a whole model at work shows: its threads, its heads, its steps."""
