"""Training: data, loss, loop and evaluation. `python -m models train` is the way in."""
