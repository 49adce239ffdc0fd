"""The figures of the atlas: heads by two measures, and one head by distance."""
