"""The exhibit of the Start page: the whole model at work on the user's sentence."""
