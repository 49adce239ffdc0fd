"""Training: data, objectives, the loop and evaluation. `python -m models train` is the way in.

`loop.py` is the place to begin reading; `objectives/` says what is minimised, and `recipes/` holds
what is this project's own.
"""
