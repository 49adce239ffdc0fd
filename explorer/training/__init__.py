"""Live training: the user's setup, trained in a process of its own.

`setup.py` defines the options, `tasks.py` the tasks; `learning.py` trains and measures,
`process.py` is the process that it runs in, and `rooms.py` decides who may watch it.
"""
