"""The command `headlight`: the app, and every command of the explorer and of the library."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import explorer.__main__
from explorer import __version__, workers
from explorer.admission import capacity
from models.foreign.finding import VARIABLE, is_gguf, missing, without_models
from models.foreign.placing import DEVICE_VARIABLE, DTYPE_VARIABLE
from models.training.commands import add_commands
from models.training.home import home
from models.training.options import add_placing, placing_of

ADDRESS, ADDRESS_VARIABLE = "--server.address", "STREAMLIT_SERVER_ADDRESS"
EVERYWHERE = "0.0.0.0"
DESCRIPTION = "Watch a trained Transformer read your sentence."
EXAMPLES = """\
examples:
  headlight app
  headlight translate "I love you."
  headlight generate --model stories "Once upon a time"
  headlight info ~/models/SmolLM2-135M
  headlight export en-zh --text "I love you." --out pictures
  headlight certify en-zh
  headlight certify my_model.py:build

`headlight COMMAND --help` describes the options of one command. The exit status is 0 on
success, 1 if a mask test fails, and 2 if the input cannot be used.
"""


def app(args: argparse.Namespace) -> int:
    """Open the app in a browser."""
    from streamlit.web import cli  # takes half a second to import, used only here

    from explorer.guard import embedding

    embedding()  # report an invalid origin now
    if args.models:
        for folder in args.models:
            if not folder.exists():
                raise ValueError(f"--models: there is no folder {folder}")
            if not folder.is_dir() and not is_gguf(folder):
                raise ValueError(f"--models: {folder} is not a folder")
        os.environ[VARIABLE] = os.pathsep.join(str(folder.resolve()) for folder in args.models)
    for folder in missing():
        print(f"headlight: {VARIABLE}: there is no folder {folder}", file=sys.stderr)
    for folder in without_models():
        print(f"headlight: {VARIABLE}: there is no model in {folder}", file=sys.stderr)
    placing = placing_of(args)  # report a missing GPU now, not to the first user
    os.environ[DEVICE_VARIABLE] = placing.device
    if placing.dtype is not None:
        os.environ[DTYPE_VARIABLE] = placing.dtype
    capacity()  # report an invalid HEADLIGHT_SESSIONS now, not at the first visit
    port = [] if args.port is None else ["--server.port", str(args.port)]
    print(f"headlight: {listening(args.public, args.further)}", flush=True)
    if args.workers > 1:
        return _several(args)
    address = ["--server.address", EVERYWHERE] if args.public else []
    # Streamlit reads the configuration in the script's folder, whatever the working directory.
    # It exits by itself, with status 2 for an unknown option.
    cli.main(["run", str(home() / "app.py"), *port, *address, *args.further], prog_name="streamlit")
    return 0


def _several(args: argparse.Namespace) -> int:
    """Serve with several processes at one address, on which Caddy listens."""
    taken = ("--server.address", "--server.port", "--server.headless")
    for option in args.further:
        if option.partition("=")[0] in taken:
            raise ValueError(f"--workers opens its own port: use --port and --public, not {option}")
    host, port = EVERYWHERE if args.public else "localhost", args.port or 8501
    asyncio.run(workers.serve(args.workers, host, port, args.further))
    return 0


def listening(public: bool, further: Sequence[str]) -> str:
    """A description of who can reach the app; `further` are options for Streamlit.

    Raises ValueError if `--public` contradicts Streamlit's own address.
    """
    asked = any(option.partition("=")[0] == ADDRESS for option in further)
    if public and asked:
        raise ValueError(
            f"--public and {ADDRESS} both set the address to listen on: give only one of them"
        )
    if public:
        return "open to everyone who can reach this machine over the network (--public)"
    if asked or ADDRESS_VARIABLE in os.environ:
        return "listening on the address set in server.address"
    return "listening on localhost only; use --public to serve the network"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit status, or 2 after reporting invalid input."""
    parser = _parser()
    args, further = parser.parse_known_args(argv)
    if further and args.run is not app:
        parser.error(f"unrecognized arguments: {' '.join(further)}")
    args.further = further
    try:
        return args.run(args) or 0  # the library's commands return nothing
    except (ValueError, OSError) as error:  # InputProblem is a ValueError
        message = explorer.__main__.refusal(error, getattr(args, "lang", "en"))
        print(f"headlight: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # an interrupted training can be resumed
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headlight",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, title="commands", metavar="COMMAND")
    command = commands.add_parser(
        "app",
        help=app.__doc__,
        description=app.__doc__,
        epilog="All further options are passed on to `streamlit run`, such as --server.headless "
        "true; `streamlit run --help` lists them.",
        allow_abbrev=False,  # --serv… belongs to Streamlit
    )
    command.set_defaults(run=app)
    command.add_argument(
        "--models",
        type=Path,
        action="append",
        metavar="DIR",
        help=f"a model folder, a folder of models, or a GGUF file (repeatable; or {VARIABLE})",
    )
    command.add_argument(
        "--public",
        action="store_true",
        help="listen on all interfaces (default: localhost only); read docs/SECURITY.md first",
    )
    add_placing(command)
    command.add_argument(
        "--workers",
        type=_workers,
        default=1,
        metavar="N",
        help="number of worker processes, one per core (default: 1); more need Caddy: "
        f"{workers.INSTALL}",
    )
    command.add_argument("--port", type=_port, help="the port to listen on (default: 8501)")
    add_commands(commands)
    explorer.__main__.add_commands(commands)
    return parser


def _workers(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= workers.MOST_WORKERS:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a number from 1 to {workers.MOST_WORKERS}"
        )
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from 1 to 65535")
    return int(text)
