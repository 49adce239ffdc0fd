"""`python -m models`: the commands of `models.training.commands`."""

import sys

from models.training.commands import main

if __name__ == "__main__":
    sys.exit(main())
