"""Score decomposition of a head, direct logit attribution, and the logit lens."""
