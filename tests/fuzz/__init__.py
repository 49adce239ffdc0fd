"""Random input for every way into Headlight: `python -m tests.fuzz SECONDS`, or `make fuzz`.

Each case is one entry and one number, from which all that is random in it follows, so a failure is
repeated by `python -m tests.fuzz --entry NAME --case NUMBER`. A case fails where anything but a
refusal is raised, where it takes longer than PATIENCE, and where a file is opened for writing
outside the case's own folder. The run fails where the process has grown by more than GROWTH.
"""
