"""Options shared by several commands: the model, its device and dtype, and the decoding."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from models.checkpoint import Checkpoint
from models.fast import speed_up
from models.foreign import Placing, found, open_folder
from models.foreign.placing import DEVICE_VARIABLE, DEVICES, DTYPE_VARIABLE, DTYPES, USUAL
from models.refusals import Refusal
from models.strategies import Beam, Sample, Strategy
from models.training.home import asset

SHIPPED = asset("checkpoints")

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What `ArgumentParser.add_subparsers()` returns: the place to add commands to."""


def run(
    prog: str,
    description: str,
    add_commands: Callable[[Commands], None],
    arguments: list[str] | None,
) -> int:
    """Run one of these commands; return 0 on success, or 1 after printing an error to stderr."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    add_commands(parser.add_subparsers(required=True, metavar="COMMAND"))
    args = parser.parse_args(arguments)
    try:
        args.run(args)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], None]
) -> argparse.ArgumentParser:
    """A new command: its help is `run`'s docstring, and `args.run(args)` runs it."""
    command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
    command.set_defaults(run=run)
    return command


def open_checkpoint(name: str, placing: Placing = USUAL) -> Checkpoint:
    """Open a model by its folder, or by the name of a shipped model or one in HEADLIGHT_MODELS.

    `placing` is the device and dtype it computes in. Raises ValueError if there is no such model
    or folder.
    """
    own = found()
    for folder in (Path(name), SHIPPED / name, own.get(name, SHIPPED / name)):
        if os.path.exists(folder):  # unlike Path, does not raise for names that are too long
            checkpoint = open_folder(folder, placing=placing)
            speed_up(checkpoint.model)
            return checkpoint
    if is_path(name):
        raise Refusal("no_such_folder", path=name)
    known = ", ".join([*sorted(path.name for path in SHIPPED.iterdir()), *own])
    raise ValueError(f"no model {name!r}: it must be a folder, or one of {known}")


def add_model(
    command: argparse.ArgumentParser, usual: str | None = None, positional: bool = False
) -> None:
    """Add the option `--model`, required unless `usual` gives a default; with `positional`, the
    model may also follow the command's name: `info DIR`."""
    words = "a folder or a GGUF file, or the name of a shipped model"
    required = usual is None
    ways = command.add_mutually_exclusive_group(required=required) if positional else command
    if positional:
        ways.add_argument("model", nargs="?", default=argparse.SUPPRESS, help=words)
        required = False
    ways.add_argument("--model", default=usual, required=required, help=words)
    add_placing(command)


def add_placing(command: argparse.ArgumentParser) -> None:
    """Add the options that `placing_of` reads."""
    command.add_argument("--device", choices=DEVICES, help=f"default: cpu (or {DEVICE_VARIABLE})")
    command.add_argument(
        "--dtype",
        choices=DTYPES,
        help="data type of the computation (default: float32, or the file's half precision if "
        f"only that fits into memory; or {DTYPE_VARIABLE})",
    )


def placing_of(args: argparse.Namespace) -> Placing:
    """The device and dtype of a model. Raises ValueError for a GPU if there is none."""
    return Placing.asked(args.device, args.dtype)


def is_path(name: str) -> bool:
    """Whether a name can only be a path."""
    return name.startswith((".", "~")) or "/" in name or os.sep in name


def add_strategy(command: argparse.ArgumentParser) -> None:
    """Add the options that `strategy_of` reads."""
    command.add_argument(
        "--beam",
        type=int,
        default=4,
        help="beam width (default: 4); 1 decodes greedily, as the app does by default",
    )
    command.add_argument("--length-penalty", type=float, default=1.0, help="default: 1")
    command.add_argument(
        "--sample", action="store_true", help="sample tokens; the next four options imply it"
    )
    command.add_argument("--temperature", type=float, help="default: 1")
    command.add_argument(
        "--top-k", type=int, help="keep the k most probable tokens (default: 0, all)"
    )
    command.add_argument("--top-p", type=float, help="default: 1")
    command.add_argument("--seed", type=int, help="default: 0")


def strategy_of(args: argparse.Namespace) -> Strategy:
    """Sampling if `--sample` or any of its settings is given; otherwise beam search."""
    usual = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0}
    settings = {name: value for name in usual if (value := getattr(args, name)) is not None}
    if args.sample or settings:
        return Sample(**{**usual, **settings})
    return Beam(width=args.beam, length_penalty=args.length_penalty)
