"""`python -m explorer`: the app's results on the command line."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch

from explorer import text
from explorer.align_command import add_options as add_align_options, align_file
from explorer.analysis.mask_tests.certify import Certificate, examine_text
from explorer.atlas_command import add_options, make_atlas
from explorer.exports.archive import to_npz
from explorer.exports.report import Tested, junit, markdown, report_lines, report_record
from explorer.library import LoadedModel, list_models, open_model
from explorer.notebook.show import attention
from explorer.problems import InputProblem
from explorer.runs.edits import about_masks, format_edits, parse_edits
from explorer.runs.trace import trace
from models.foreign.system import of_system
from models.refusals import Refusal
from models.training.options import Commands, add_model, is_path, placing_of

CHANGES = "changes to the model, as in the app's links, for example causal-off"
SMALL = 50_000_000
"""Parameters up to which a model is too small to benefit from a second thread."""


def export(args: argparse.Namespace) -> int:
    """Write a traced sentence as arrays and pictures, or a page in which the model runs."""
    if args.live is not None:
        return _export_live(args)
    if args.text is None or args.out is None:
        raise ValueError("export: give --text and --out, or --live")
    loaded = _opened(args)
    traced = trace(loaded, args.text, args.target, parse_edits(args.edits), args.pads)
    out: Path = args.out
    out.mkdir(parents=True, exist_ok=True)
    picture = attention(traced, lang=args.lang)
    paths = [picture.save(out / name) for name in ("heads.html", "heads.svg", "patterns.csv")]
    archive = out / "trace.npz"
    archive.write_bytes(to_npz(traced))
    print(*filter(None, (traced.output, archive, *paths)), sep="\n")
    return 0


def _export_live(args: argparse.Namespace) -> int:
    """Write a folder of static files in which the model runs in the browser."""
    from explorer.live.site import write_live  # no other command needs it
    from explorer.live.weights import Precision

    precision: Precision = "float32" if args.float32 else "int8"
    written = write_live(_opened(args), args.live, precision, args.embed_from)
    print(
        f"{args.live / 'index.html'} ({written.n_bytes / 1e6:.1f} MB, {len(written.files)} files)"
    )
    return 0


def certify(args: argparse.Namespace) -> int:
    """Test the masks of a model, or of your own code; exit status 1 if they fail."""
    # With all cases, which other commands do not wait for.
    from explorer.notebook.certify import is_code

    if is_code(args.model):
        return _certify_code(args)
    loaded = _opened(args)
    sentence = args.text
    if sentence is None:
        sentence = next(iter(text.examples(loaded.name, like=loaded.like).values()))[0]
    asked = parse_edits(args.edits)
    traced = trace(loaded, sentence, args.target, asked) if asked else None
    edits = tuple(edit for edit in (traced.edits if traced else ()) if about_masks(edit))
    if left := tuple(edit for edit in asked if edit not in edits):
        words = text.t("certify.ignored", lang=args.lang, edits=format_edits(left))
        print(words, file=sys.stderr)
    certificate = examine_text(loaded, sentence, args.target, edits).certificate()
    tested = Tested(loaded.name, sentence, edits)
    _write_reports(args, certificate, tested)
    if args.json:
        print(json.dumps(report_record(certificate, tested), ensure_ascii=False))
    else:
        print("\n".join(report_lines(certificate, args.lang, tested)))
    return 0 if certificate.passed else 1


def _certify_code(args: argparse.Namespace) -> int:
    """Certify the result of a function in a Python file."""
    from explorer.notebook.certify import certify_built

    result = certify_built(args.model)
    _write_reports(args, result, Tested(args.model, ""), result.explained(args.lang))
    print(
        json.dumps(result.record(), ensure_ascii=False) if args.json else result.report(args.lang)
    )
    return 0 if result.passed else 1


def _write_reports(
    args: argparse.Namespace,
    certificate: Certificate,
    tested: Tested,
    explained: Iterable[str] = (),
) -> None:
    """Write the files that the options name. Raises OSError."""
    lines = tuple(explained)
    for path, report in ((args.junit, junit), (args.markdown, markdown)):
        if path is not None:
            path.write_text(report(certificate, args.lang, tested, lines), encoding="utf-8")


def align(args: argparse.Namespace) -> int:
    """Link the words of sentences and their translations, for a whole file."""
    return align_file(_opened(args), args)


def atlas(args: argparse.Namespace) -> int:
    """Measure what each head does over a whole file."""
    return make_atlas(_opened(args), args)


def _opened(args: argparse.Namespace) -> LoadedModel:
    """A model by name or by folder. Raises InputProblem; Refusal for a missing folder.

    A small model computes on one thread: synchronising two takes longer, and many times as long
    on a busy machine.
    """
    name, placing = args.model, placing_of(args)
    if is_path(name) and not os.path.exists(name):
        raise Refusal("no_such_folder", path=name)
    from_folder = name not in list_models() and os.path.exists(name)
    loaded = open_model(Path(name) if from_folder else name, placing=placing)
    if loaded.n_parameters < SMALL:
        torch.set_num_threads(1)
    return loaded


def _command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    reads_target: bool = False,
) -> argparse.ArgumentParser:
    """A command with the arguments that all commands share."""
    command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
    command.set_defaults(run=run)
    add_model(command, positional=True)
    if reads_target:
        command.add_argument("--target", help="a translation to read instead of generating one")
    command.add_argument(
        "--lang", choices=text.LANGUAGES, default="en", help="language of the output"
    )
    return command


def add_commands(commands: Commands) -> None:
    """Add every command to the result of `ArgumentParser.add_subparsers()`.

    `args.run(args)` then runs the chosen command and returns its exit status; `refusal` words the
    exceptions that it raises.
    """
    command = _command(commands, "export", export, reads_target=True)
    command.add_argument("--text", help="the sentence")
    command.add_argument("--out", type=Path, help="folder to write into")
    command.add_argument(
        "--live", type=Path, help="folder for a web page in which the model runs in the browser"
    )
    command.add_argument("--float32", action="store_true", help="with --live: do not round weights")
    origins = "with --live: other origins allowed to exchange messages with the page"
    command.add_argument("--embed-from", nargs="+", default=(), metavar="ORIGIN", help=origins)
    command.add_argument("--edits", default="", help=CHANGES)
    command.add_argument("--pads", type=int, default=0, help="padding tokens to append")
    command = _command(commands, "certify", certify, reads_target=True)
    command.epilog = (
        "To test your own code, give FILE.py:FUNCTION instead of a model. The function returns the "
        "arguments of explorer.certify, as (forward, src, tgt) or as a dict; src is None for a "
        "model that reads one text."
    )
    command.add_argument("--text", help="the sentence; an example by default")
    command.add_argument("--edits", default="", help=CHANGES)
    command.add_argument("--json", action="store_true", help="print the report as one JSON object")
    command.add_argument("--junit", type=Path, metavar="FILE", help="also write JUnit XML")
    command.add_argument("--markdown", type=Path, metavar="FILE", help="also write Markdown")
    add_align_options(_command(commands, "align", align))
    add_options(_command(commands, "atlas", atlas))


def refusal(error: ValueError | OSError, lang: str) -> str:
    """What is wrong with the input, or could not be written, in the user's language."""
    if isinstance(error, InputProblem):
        return text.problem(error.key, error.values, lang=lang)
    if isinstance(error, Refusal):
        return text.refusal(error, lang=lang)
    if isinstance(error, OSError) and error.filename and error.strerror:
        cause = of_system(error)
        reason = text.refusal(cause, lang=lang) if isinstance(cause, Refusal) else cause
        return f"{error.filename}: {reason}"  # without the number of the error
    return str(error)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit status, or 2 after reporting invalid input."""
    parser = argparse.ArgumentParser(prog="python -m explorer", description=__doc__)
    add_commands(parser.add_subparsers(required=True, metavar="command"))
    args = parser.parse_args(argv)
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        return run(args)
    except (ValueError, OSError) as error:
        print(f"python -m explorer: {refusal(error, args.lang)}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
