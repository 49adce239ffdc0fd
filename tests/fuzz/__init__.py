"""Random input for every way into Headlight, by `tests/test_fuzz.py` and `make fuzz`.

Each case is one entry and one number, from which all that is random in it follows. A case fails
where anything but a refusal is raised, where it takes longer than PATIENCE, and where a file is
opened for writing outside the case's own folder.
"""
