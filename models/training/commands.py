"""All commands of `python -m models`, and the implementation of `train` and `evaluate`."""

import argparse
import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import torch
import torch.distributed as dist

from models.checkpoint import SOURCE_TOKENIZER, TOKENIZER, WEIGHTS, load_tokenizer, load_weights
from models.pictures import read_pictures
from models.tokenizer import SPECIAL_TOKENS
from models.training import options, using
from models.training.columns import header_of
from models.training.corpus import DataConfig, Row, make_rows, read_rows
from models.training.data import Material, encode_rows
from models.training.evaluate import (
    bleu_score,
    evaluate_language_model,
    evaluate_masked_words,
    evaluate_reading,
    evaluate_translation,
)
from models.training.faults import Masks
from models.training.loop import EPOCHS, Trainer
from models.training.recipe import Recipe, additions, read_recipe, recipe_names
from models.training.saving import SNAPSHOTS, average_snapshots, best_epochs, save_checkpoint
from models.training.vocabulary import characters, train_tokenizer
from models.transformer import Model, build_model

DESCRIPTION = (
    "`python -m models`: train, translate, generate, evaluate and describe models from the shell."
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return 0 on success, or 1 after printing an error to stderr."""
    return options.run("python -m models", DESCRIPTION, add_commands, arguments)


def train(args: argparse.Namespace) -> None:
    """Train a recipe on sentence pairs (.tsv), plain text or its own task, or resume a run."""
    recipe = read_recipe(args.recipe, args.set)
    out: Path = args.out
    torch.set_num_threads(args.threads)
    if "RANK" in os.environ:  # started by torchrun
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rows = rows_of(recipe, args.data, "--data")
    valid = rows_of(recipe, args.valid, "--valid", held_apart=True)
    out.mkdir(parents=True, exist_ok=True)
    start = options.open_checkpoint(recipe.data.start) if recipe.data.start else None
    torch.manual_seed(recipe.training.seed)
    model = build_model(recipe.model)
    if not (out / TOKENIZER).is_file() and int(os.environ.get("RANK", 0)) == 0:
        texts = [text for row in rows for text in (row if isinstance(row, tuple) else (row,))]
        texts = [text for text in texts if isinstance(text, str)]  # not pictures
        special = (*SPECIAL_TOKENS, "<mask>") if model.config.fills else SPECIAL_TOKENS
        size, of_source = recipe.model.vocab_size, recipe.model.src_vocab_size
        train = characters if recipe.model.picture else train_tokenizer
        if of_source and start is None:
            sides = list(zip(*rows, strict=True))
            train(sides[0], of_source).save(out / SOURCE_TOKENIZER)
            texts = list(sides[1])
        keeps = start is not None and start.config.vocab_size == size
        main_tokenizer = (
            start.tokenizer if start and keeps else train(texts, size, special_tokens=special)
        )
        main_tokenizer.save(out / TOKENIZER)
    if dist.is_initialized():
        dist.barrier()  # one process writes the tokenizer, all read it
    tokenizer = load_tokenizer(out, recipe.model)
    if tokenizer.vocab_size != recipe.model.vocab_size:
        raise ValueError(
            f"model.vocab_size is {recipe.model.vocab_size}, but this text gives a vocabulary of "
            f"{tokenizer.vocab_size}: set model.vocab_size={tokenizer.vocab_size}"
        )
    pairs = [row for row in valid if isinstance(row, tuple)]

    def score(model: Model) -> dict[str, float]:
        if model.config.reads_source and pairs and not model.config.picture:
            return bleu_score(model, tokenizer, pairs)
        return {}

    model.marks = tokenizer.marks
    if start is not None:
        sizes = [(of.vocab_size, of.n_layers) for of in (start.config, recipe.model)]
        if sizes[0] == sizes[1]:
            load_weights(model, start.folder / WEIGHTS)
        else:
            additions().begin(start, model, tokenizer)
    additions().prepare(recipe, rows, tokenizer)
    n_marks = len(model.with_marks("tgt", ()))
    examples, held_out = (
        encode_rows(split, tokenizer, recipe.model.n_ctx, n_marks) for split in (rows, valid)
    )
    material = Material(examples, held_out)
    trainer = Trainer(model, material, recipe.training, out, recipe.objectives, score=score)
    progress = trainer.run()
    if trainer.rank == 0:
        best = best_epochs(progress.curve, recipe.training.average)
        average_snapshots(
            trainer.model, [out / EPOCHS / f"epoch-{e:03d}.safetensors" for e in best]
        )
        checkpoint = out / "checkpoint"
        save_checkpoint(checkpoint, trainer.model, tokenizer, dtype=torch.float16)
        if recipe.training.snapshots:
            shutil.copytree(out / SNAPSHOTS, checkpoint / SNAPSHOTS, dirs_exist_ok=True)
        print(f"{checkpoint}: the mean of epochs {', '.join(map(str, best))}")
    if dist.is_initialized():
        dist.destroy_process_group()


def rows_of(recipe: Recipe, path: Path | None, option: str, held_apart: bool = False) -> Any:
    """The training rows or, if `held_apart`, the validation rows (none without a file).

    `option` is the command-line option of `path`, for messages. Raises ValueError if there is a
    file although the recipe has a task, or neither a file nor a task for training.
    """
    paired = recipe.model.reads_source
    if recipe.data.task is not None:
        if path is not None:
            raise ValueError(
                f"this recipe makes its own examples (data.task is {recipe.data.task!r}) and reads "
                f"no file: leave out {option} {path}"
            )
        return make_rows(recipe.data, paired, recipe.training.seed)[held_apart]
    if path is None:
        if held_apart:
            return []
        raise ValueError("this recipe has no task: give a file to train on with --data")
    if recipe.model.picture:
        return read_pictures(path, recipe.model.picture)
    rows = _rows_in(path, recipe.data, paired)
    return rows if held_apart else rows + additions().more_rows(recipe, rows)


def _rows_in(path: Path, config: DataConfig, paired: bool) -> list[Row]:
    """`read_rows`; a header that is skipped is named on standard error."""
    if paired and (header := header_of(path)):
        print(f"{path}: skipped the first row, a header: {', '.join(header)}", file=sys.stderr)
    return read_rows(path, config, paired)


def evaluate_model(args: argparse.Namespace) -> None:
    """Score a model: BLEU and chrF on pairs, perplexity on plain text; the last line is JSON."""
    checkpoint = options.open_checkpoint(args.model, options.placing_of(args))
    if args.recipe:
        rows = rows_of(read_recipe(args.recipe, []), args.pairs, "--pairs", held_apart=True)
    elif args.pairs and checkpoint.config.picture:
        rows = read_pictures(args.pairs, checkpoint.config.picture)
    elif args.pairs:
        paired = checkpoint.config.reads_source
        rows = _rows_in(args.pairs, DataConfig(), paired)
    else:
        rows = []
    if not rows:
        raise ValueError("nothing to score on: give --pairs, or a --recipe with a task")
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    figures: dict[str, float]
    if model.config.picture:
        figures = evaluate_reading(model, tokenizer, rows)
    elif model.config.reads_source:
        pairs = [row for row in rows if isinstance(row, tuple)]
        strategy = options.strategy_of(args)
        figures = asdict(evaluate_translation(model, tokenizer, pairs, strategy, args.masks))
    elif model.config.fills:
        figures = evaluate_masked_words(model, tokenizer, [x for x in rows if isinstance(x, str)])
    else:
        texts = [row for row in rows if isinstance(row, str)]
        figures = evaluate_language_model(model, tokenizer, texts)
    print(json.dumps({"model": checkpoint.folder.name, **figures}))


def add_commands(commands: options.Commands) -> None:
    """Add every command to the result of `ArgumentParser.add_subparsers()`.

    `args.run(args)` then runs the chosen command; it raises ValueError or OSError with a message
    for the user.
    """
    using.add_commands(commands)

    command = options.add_command(commands, "train", train)
    names = "".join(f"{name}, " for name in recipe_names())
    command.add_argument("--recipe", required=True, help=f"{names and names + 'or '}a file")
    command.add_argument(
        "--data",
        type=Path,
        help="training data: source TAB target, or text, per line; not needed for a generated task",
    )
    command.add_argument("--valid", type=Path, help="validation data, in the same format")
    command.add_argument("--out", type=Path, required=True, help="folder for the run")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TABLE.FIELD=VALUE",
        help="change the recipe, for example model.dropout=0.2",
    )
    command.add_argument("--threads", type=int, default=1, help="number of threads per process")

    command = options.add_command(commands, "evaluate", evaluate_model)
    options.add_model(command, "en-zh")
    command.add_argument("--pairs", type=Path, help="file of source TAB target, or text, per line")
    command.add_argument(
        "--recipe", help="read the pairs as this recipe does, or generate them with its task"
    )
    masks = get_args(Masks)
    command.add_argument(
        "--masks",
        choices=masks,
        default=masks[0],
        help="the masks that a control model was trained with",
    )
    options.add_strategy(command)
