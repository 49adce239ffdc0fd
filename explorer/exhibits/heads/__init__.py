"""All heads of one kind of attention in one linked view."""
