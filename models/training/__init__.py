"""Training: data, objectives, the loop and evaluation. Run it with `python -m models train`.

Start reading at `loop.py`; `objectives/` contains the loss functions, and `recipes/` everything
specific to this project's models.
"""
