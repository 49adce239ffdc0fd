"""`python -m models`: train, translate, generate, evaluate and describe models from the shell."""

import argparse
import sys

from models.training.commands import add_commands


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 when it worked, 1 with a message on standard error when it did not."""
    parser = argparse.ArgumentParser(prog="python -m models", description=__doc__)
    add_commands(parser.add_subparsers(required=True, metavar="COMMAND"))
    args = parser.parse_args(arguments)
    try:
        args.run(args)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
