"""Questions to a Trace, one a file: a Trace goes in, numbers come out, nothing is drawn."""
