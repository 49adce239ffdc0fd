"""The command `atlas`: what each head does over a file, with one process or many (torchrun)."""

import argparse
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from tqdm import tqdm

from explorer.analysis.atlas.ablation import SENTENCES
from explorer.analysis.atlas.make import Making, Unit, home_of
from explorer.analysis.atlas.reading import scan
from explorer.analysis.atlas.store import read_atlas
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.text import t
from models.training.columns import header_of

PATIENCE = timedelta(days=30)
"""How long a process waits for slower ones at the end."""


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
        help="folder for the atlas and its shards (default: atlas/ next to the model, if there is "
        "none yet); the app also finds atlases in the folders that HEADLIGHT_ATLASES names",
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
    command.epilog = (
        "With several processes: torchrun --nproc-per-node=2 -m explorer atlas MODEL --data FILE. "
        "The result is bit-identical for any number of processes. To resume an interrupted run, "
        "repeat the command."
    )


def make_atlas(loaded: LoadedModel, args: argparse.Namespace) -> int:
    """Measure every shard that has no file yet; the first process then merges all shards.

    Raises InputProblem, `atlas_there` if the model has an atlas and replacing it was not requested;
    OSError; ValueError for an impossible `--ablate`.
    """
    if args.ablate < 0:
        raise ValueError(f"--ablate is {args.ablate}: it must be 0 or more")
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(1)  # sums over several threads depend on their number
    corpus = scan(args.data)
    out: Path = args.out or home_of(loaded)
    making = Making(
        loaded, corpus, out, reverse=args.reverse, ablate=args.ablate, credit=args.credit
    )
    if args.out is None and making.file.exists():
        raise InputProblem("atlas_there", folder=str(out))
    if world > 1:
        dist.init_process_group("gloo", timeout=PATIENCE)
    try:
        if rank == 0:
            _say_what_is_there(making, args.lang)
            making.begin()
        if world > 1:
            dist.barrier()  # the folder exists
        _measure(making, rank, world, args.lang)
        if world > 1:
            dist.barrier()  # all shards exist
        if rank == 0:
            _finish(making, args.lang)
    finally:
        if world > 1:
            dist.destroy_process_group()
    return 0


def _measure(making: Making, rank: int, world: int, lang: str) -> None:
    """Measure every `world`-th unit, this process's share. The first reports overall progress."""
    total = len(making.units)
    with tqdm(
        total=total,
        initial=total - len(making.missing()),
        desc=t("atlas.command.progress", lang=lang),
        unit=t("atlas.command.unit", lang=lang),
        disable=rank > 0,
        smoothing=0.1,
    ) as bar:
        for unit in making.units[rank::world]:
            if not making.path(unit).exists():
                making.write(unit)
            bar.update(total - len(making.missing()) - bar.n)


def _say_what_is_there(making: Making, lang: str) -> None:
    """Report a skipped header and the results of an earlier run on standard error."""
    if header := header_of(making.corpus.path):
        print(t("align.header", lang=lang, names=", ".join(header)), file=sys.stderr)
    if (before := making.changed()) is not None:
        _say(
            "changed", lang, name=making.corpus.path.name, before=before[:12],
            now=making.corpus.digest[:12],
        )  # fmt: skip
    elif making.others():
        _say("others", lang, count=len(making.others()))
    done = len(making.units) - len(making.missing())
    if done:
        _say("going_on", lang, done=done, total=len(making.units))


def _finish(making: Making, lang: str) -> None:
    def again(unit: Unit) -> None:
        _say("again", lang, name=making.path(unit).name)

    path = making.finish(again)
    atlas = read_atlas(path)
    print(
        t(
            "atlas.command.done",
            lang=lang,
            path=path,
            heads=len(atlas.heads),
            sentences=f"{atlas.counts['sentences']:,}",
            rows=f"{atlas.counts['queries']:,}",
        )
    )
    if left := {k: atlas.counts[k] for k in ("too_long", "unreadable") if atlas.counts[k]}:
        print(t("atlas.command.left_out", lang=lang, **({"too_long": 0, "unreadable": 0} | left)))


def _say(key: str, lang: str, **values: object) -> None:
    print(t(f"atlas.command.{key}", lang=lang, **values), file=sys.stderr)
