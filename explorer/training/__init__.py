"""Training while somebody watches: what a visitor sets up, learnt in a process of its own.

`setup.py` says what can be chosen, `tasks.py` what is learnt; `learning.py` is the training with
its measurements, `process.py` the process that it runs in, `rooms.py` who may watch it.
"""
