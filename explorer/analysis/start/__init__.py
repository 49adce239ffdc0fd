"""The data of the figure of a whole model at work: its threads, its heads, its steps."""
