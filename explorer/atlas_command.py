"""The command `atlas`: what each head does over a file."""

import argparse
import sys
from pathlib import Path

import torch
from tqdm import tqdm

from explorer.analysis.atlas.ablation import SENTENCES
from explorer.analysis.atlas.make import home_of, name_for, over_file
from explorer.analysis.atlas.reading import scan
from explorer.analysis.atlas.store import to_json
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.passes import walked
from explorer.text import t
from models.training.columns import header_of


def add_options(command: argparse.ArgumentParser) -> None:
    """The options of `make_atlas`, in addition to the model."""
    command.add_argument(
        "--data",
        type=Path,
        required=True,
        help="UTF-8 file, one example per line: a sentence, or source TAB translation TAB "
        "attribution",
    )
    command.add_argument(
        "--out",
        type=Path,
        help="folder for the atlas (default: atlas/ next to the model, if there is none yet)",
    )
    command.add_argument(
        "--reverse", action="store_true", help="the second column of the file is the source"
    )
    command.add_argument(
        "--ablate",
        type=int,
        default=SENTENCES,
        metavar="N",
        help=f"number of sentences on which every head is ablated (default: {SENTENCES})",
    )
    command.add_argument(
        "--credit", default="", help="source and licence of the sentences, shown next to them"
    )


def make_atlas(loaded: LoadedModel, args: argparse.Namespace) -> int:
    """Measure the whole file, and write the atlas when that is done.

    Raises InputProblem, `atlas_there` if the model has an atlas and replacing it was not requested;
    OSError; ValueError for an impossible `--ablate`.
    """
    if args.ablate < 0:
        raise ValueError(f"--ablate is {args.ablate}: it must be 0 or more")
    torch.set_num_threads(1)  # sums over several threads depend on their number
    corpus = scan(args.data)
    folder: Path = args.out or home_of(loaded)
    file = folder / name_for(loaded)
    if args.out is None and file.exists():
        raise InputProblem("atlas_there", folder=str(folder))
    if header := header_of(args.data):
        print(t("align.header", lang=args.lang, names=", ".join(header)), file=sys.stderr)
    options = {"reverse": args.reverse, "ablate": args.ablate, "credit": args.credit}
    with tqdm(desc=t("atlas.command.progress", lang=args.lang), unit="") as bar:

        def tell(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        atlas = walked(over_file(loaded, corpus, **options), tell)
    folder.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(to_json(atlas), encoding="utf-8")
    part.replace(file)  # the app never reads half a file
    counts = {"sentences": atlas.counts["sentences"], "rows": atlas.counts["queries"]}
    numbers = {name: f"{count:,}" for name, count in counts.items()}
    print(t("atlas.command.done", lang=args.lang, path=file, heads=len(atlas.heads), **numbers))
    left = {name: atlas.counts[name] for name in ("too_long", "unreadable")}
    if any(left.values()):
        print(t("atlas.command.left_out", lang=args.lang, **left))
    return 0
