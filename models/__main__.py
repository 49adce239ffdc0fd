"""`python -m models`: train, translate, generate, evaluate and describe models from the shell."""

import argparse
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from models.checkpoint import TOKENIZER, save_checkpoint
from models.tokenizer import Tokenizer
from models.training.data import (
    Example,
    encode_pairs,
    encode_texts,
    read_pairs,
    read_texts,
)
from models.training.loop import SNAPSHOTS, Trainer, average_snapshots, best_epochs
from models.training.recipe import read_recipe, recipe_names
from models.transformer import build_model


def train(args: argparse.Namespace) -> None:
    """Train a recipe on sentence pairs (.tsv) or plain text, resuming what the folder holds."""
    recipe = read_recipe(args.recipe, args.set)
    out: Path = args.out
    torch.set_num_threads(args.threads)
    if "RANK" in os.environ:  # started by torchrun
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    paired = recipe.model.family == "encoder-decoder"
    rows = read_pairs(args.data) if paired else read_texts(args.data)
    texts = [text for row in rows for text in (row if isinstance(row, tuple) else (row,))]
    if not texts:
        raise ValueError(f"{args.data} holds no text")
    out.mkdir(parents=True, exist_ok=True)
    if not (out / TOKENIZER).is_file() and int(os.environ.get("RANK", 0)) == 0:
        Tokenizer.train(texts, recipe.model.vocab_size).save(out / TOKENIZER)
    if dist.is_initialized():
        dist.barrier()  # one process made the tokenizer, all read it
    tokenizer = Tokenizer.load(out / TOKENIZER)
    if tokenizer.vocab_size != recipe.model.vocab_size:
        raise ValueError(
            f"model.vocab_size is {recipe.model.vocab_size}, but this text gives a vocabulary of "
            f"{tokenizer.vocab_size}: set model.vocab_size={tokenizer.vocab_size}"
        )

    def encoded(path: Path | None) -> list[Example]:
        if path is None:
            return []
        if paired:
            return encode_pairs(read_pairs(path), tokenizer, recipe.model.n_ctx)
        return encode_texts(read_texts(path), tokenizer, recipe.model.n_ctx)

    torch.manual_seed(recipe.training.seed)
    trainer = Trainer(
        build_model(recipe.model),
        encoded(args.data),
        encoded(args.valid),
        recipe.training,
        out,
    )
    progress = trainer.run()
    if trainer.rank == 0:
        best = best_epochs(progress.curve, recipe.training.average)
        average_snapshots(
            trainer.model, [out / SNAPSHOTS / f"epoch-{e:03d}.safetensors" for e in best]
        )
        save_checkpoint(out / "checkpoint", trainer.model, tokenizer, dtype=torch.float16)
        print(f"{out / 'checkpoint'}: the mean of epochs {', '.join(map(str, best))}")
    if dist.is_initialized():
        dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m models", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("train", help=train.__doc__)
    command.set_defaults(run=train)
    command.add_argument(
        "--recipe", required=True, help=f"one of {', '.join(recipe_names())}, or a file"
    )
    command.add_argument(
        "--data", type=Path, required=True, help="source TAB target (.tsv), or plain text"
    )
    command.add_argument("--valid", type=Path, help="the same, held apart")
    command.add_argument("--out", type=Path, required=True, help="the run's folder")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TABLE.FIELD=VALUE",
        help="change the recipe, for example model.dropout=0.2",
    )
    command.add_argument("--threads", type=int, default=1, help="threads of each process")
    args = parser.parse_args()
    try:
        args.run(args)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
