"""`python -m models`: train, translate, generate, evaluate and describe models from the shell."""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import torch
import torch.distributed as dist

from models.checkpoint import (
    MOMENTS,
    TOKENIZER,
    WEIGHTS,
    Checkpoint,
    load_checkpoint,
    load_weights,
    save_checkpoint,
)
from models.decoding import Beam, Sample, Strategy, best, decode
from models.home import asset
from models.tokenizer import Tokenizer
from models.training.averaging import average_snapshots, best_epochs
from models.training.corpus import DataConfig, Row, make_rows, more_rows, read_rows
from models.training.data import encode_rows, read_texts
from models.training.evaluate import (
    bleu_score,
    evaluate_language_model,
    evaluate_translation,
    numbers_kept,
    translate,
)
from models.training.faults import Masks
from models.training.growing import grow
from models.training.joining import joined_pairs
from models.training.loop import SNAPSHOTS, Trainer
from models.training.numbering import numbered_rows
from models.training.preference import preferences_of, read_judged
from models.training.recipe import Recipe, read_recipe, recipe_names
from models.transformer import EncoderDecoder, Model, build_model

SHIPPED = asset("checkpoints")


def train(args: argparse.Namespace) -> None:
    """Train a recipe on sentence pairs (.tsv), plain text or its task; resume what is there."""
    recipe = read_recipe(args.recipe, args.set)
    out: Path = args.out
    torch.set_num_threads(args.threads)
    if "RANK" in os.environ:  # started by torchrun
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rows, valid = _rows(recipe, args.data), _rows(recipe, args.valid, held_apart=True)
    out.mkdir(parents=True, exist_ok=True)
    start = _open(recipe.data.start) if recipe.data.start else None
    if not (out / TOKENIZER).is_file() and int(os.environ.get("RANK", 0)) == 0:
        texts = [text for row in rows for text in (row if isinstance(row, tuple) else (row,))]
        made = start.tokenizer if start else Tokenizer.train(texts, recipe.model.vocab_size)
        made.save(out / TOKENIZER)
    if dist.is_initialized():
        dist.barrier()  # one process made the tokenizer, all read it
    tokenizer = Tokenizer.load(out / TOKENIZER)
    if tokenizer.vocab_size != recipe.model.vocab_size:
        raise ValueError(
            f"model.vocab_size is {recipe.model.vocab_size}, but this text gives a vocabulary of "
            f"{tokenizer.vocab_size}: set model.vocab_size={tokenizer.vocab_size}"
        )
    pairs = [row for row in valid if isinstance(row, tuple)]

    def score(model: Model) -> dict[str, float]:
        if isinstance(model, EncoderDecoder) and pairs:
            return bleu_score(model, tokenizer, pairs)
        return {}

    torch.manual_seed(recipe.training.seed)
    model = build_model(recipe.model)
    if start is not None:
        if start.config.n_layers == recipe.model.n_layers:
            load_weights(model, start.folder / WEIGHTS)
        else:
            grow(start.model, model)
    preferences = []
    if recipe.data.judged:
        texts = [row for row in rows if isinstance(row, str)]
        preferences = preferences_of(read_judged(recipe.data.judged), texts, tokenizer)
    trainer = Trainer(
        model,
        encode_rows(rows, tokenizer, recipe.model.n_ctx),
        encode_rows(valid, tokenizer, recipe.model.n_ctx),
        recipe.training,
        out,
        score=score,
        preferences=preferences,
    )
    progress = trainer.run()
    if trainer.rank == 0:
        best = best_epochs(progress.curve, recipe.training.average)
        average_snapshots(
            trainer.model, [out / SNAPSHOTS / f"epoch-{e:03d}.safetensors" for e in best]
        )
        checkpoint = out / "checkpoint"
        save_checkpoint(checkpoint, trainer.model, tokenizer, dtype=torch.float16)
        if recipe.training.moments:
            shutil.copytree(out / MOMENTS, checkpoint / MOMENTS, dirs_exist_ok=True)
        print(f"{checkpoint}: the mean of epochs {', '.join(map(str, best))}")
    if dist.is_initialized():
        dist.destroy_process_group()


def _rows(recipe: Recipe, path: Path | None, held_apart: bool = False) -> list[Row]:
    """What to train on, or to choose by; nothing to choose by where no file was given."""
    paired = recipe.model.family == "encoder-decoder"
    if recipe.data.task is not None:
        return make_rows(recipe.data, paired, recipe.training.seed)[held_apart]
    if path is None:
        if held_apart:
            return []
        raise ValueError("this recipe has no task: give a file to train on with --data")
    rows = read_rows(path, recipe.data, paired)
    return rows if held_apart else rows + more_rows(rows, recipe.data, recipe.training.seed)


def _open(name: str) -> Checkpoint:
    """A checkpoint by its folder, or by its name among the shipped ones; ValueError for neither."""
    for folder in (Path(name), SHIPPED / name):
        if folder.is_dir():
            return load_checkpoint(folder)
    shipped = ", ".join(sorted(path.name for path in SHIPPED.iterdir()))
    raise ValueError(f"no model {name!r}: it must be a folder, or one of {shipped}")


def _strategy(args: argparse.Namespace) -> Strategy:
    """Sampling when it is asked for, or any of its settings; else a beam."""
    usual = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0}
    given = {name: value for name in usual if (value := getattr(args, name)) is not None}
    if args.sample or given:
        return Sample(**{**usual, **given})
    return Beam(width=args.beam, length_penalty=args.length_penalty)


def translate_text(args: argparse.Namespace) -> None:
    """Translate the sentences given, or one a line from standard input."""
    checkpoint = _open(args.model)
    if not isinstance(checkpoint.model, EncoderDecoder):
        raise ValueError(f"{args.model} is a decoder-only model: use generate")
    sentences = args.text or [line.strip() for line in sys.stdin if line.strip()]
    for line in translate(checkpoint.model, checkpoint.tokenizer, sentences, _strategy(args)):
        print(line)


def generate(args: argparse.Namespace) -> None:
    """Continue a text with a decoder-only model, or translate with an encoder-decoder."""
    checkpoint = _open(args.model)
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    ids = tokenizer.encode(args.text)
    paired = isinstance(checkpoint.model, EncoderDecoder)
    prompt = [*ids, config.eos_id] if paired else [config.bos_id, *ids]
    steps = decode(checkpoint.model, torch.tensor([prompt]), _strategy(args), args.max_new_tokens)
    for hypothesis in best(steps):
        print(tokenizer.decode(hypothesis.tokens if paired else [*ids, *hypothesis.tokens]))


def evaluate_model(args: argparse.Namespace) -> None:
    """Score a model: BLEU and chrF on pairs, perplexity on plain text; JSON in the last line."""
    checkpoint = _open(args.model)
    if args.recipe:
        rows = _rows(read_recipe(args.recipe, []), args.pairs, held_apart=True)
    elif args.pairs:
        paired = isinstance(checkpoint.model, EncoderDecoder)
        rows = read_rows(args.pairs, DataConfig(), paired)
    else:
        rows = []
    if not rows:
        raise ValueError("nothing to score on: give --pairs, or a --recipe with a task")
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    figures: dict[str, float]
    if isinstance(model, EncoderDecoder):
        pairs = [row for row in rows if isinstance(row, tuple)]
        if args.joined:
            pairs = joined_pairs(pairs, args.joined, seed=1)
        strategy = _strategy(args)
        if args.numbered:
            others = numbered_rows(pairs, args.numbered, seed=1)
            figures = numbers_kept(model, tokenizer, others, strategy, args.masks)
        else:
            figures = asdict(evaluate_translation(model, tokenizer, pairs, strategy, args.masks))
    else:
        texts = [row for row in rows if isinstance(row, str)]
        counted = read_texts(args.trigram) if args.trigram else ()
        figures = evaluate_language_model(model, tokenizer, texts, counted)
    print(json.dumps({"model": checkpoint.folder.name, **figures}))


def info(args: argparse.Namespace) -> None:
    """Sizes, choices, parameters and attention sites of a model."""
    checkpoint = _open(args.model)
    print(checkpoint.config.to_json(), end="")
    total = 0
    for name, child in checkpoint.model.named_children():
        count = sum(p.numel() for p in child.parameters())
        if count:
            print(f"{name:12} {count:>12,} parameters")
    total = sum(p.numel() for p in checkpoint.model.parameters())
    print(f"{'all':12} {total:>12,} parameters (a tied matrix counts once)")
    for site in checkpoint.model.attention_sites():
        print(f"{site.name}: {site.n_heads} heads, {site.query_stream} looks at {site.key_stream}")


def _add_strategy(command: argparse.ArgumentParser) -> None:
    command.add_argument("--beam", type=int, default=4, help="beam width; 1 is greedy")
    command.add_argument("--length-penalty", type=float, default=1.0)
    command.add_argument(
        "--sample", action="store_true", help="sample instead of searching, as any of these does:"
    )
    command.add_argument("--temperature", type=float, help="1 unless given")
    command.add_argument("--top-k", type=int, help="0, which is the default: all")
    command.add_argument("--top-p", type=float, help="1 unless given")
    command.add_argument("--seed", type=int, help="0 unless given")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, 0 or more")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m models", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        command.set_defaults(run=run)
        return command

    command = add("train", train)
    recipes = ", ".join(recipe_names())
    command.add_argument("--recipe", required=True, help=f"one of {recipes}, or a file")
    command.add_argument("--data", type=Path, help="source TAB target, or text; none for a task")
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

    command = add("translate", translate_text)
    command.add_argument("text", nargs="*")
    command.add_argument("--model", default="en-zh", help="a shipped model, or a folder")
    _add_strategy(command)

    command = add("generate", generate)
    command.add_argument("text")
    command.add_argument("--model", required=True, help="a shipped model, or a folder")
    command.add_argument("--max-new-tokens", type=int, default=64)
    _add_strategy(command)

    command = add("evaluate", evaluate_model)
    command.add_argument("--model", default="en-zh", help="a shipped model, or a folder")
    command.add_argument("--pairs", type=Path, help="source TAB target, or text")
    command.add_argument(
        "--trigram", type=Path, help="text to count, for a trigram to compare with"
    )
    command.add_argument("--recipe", help="read the pairs as this recipe does, or make its task's")
    command.add_argument(
        "--joined",
        type=_count,
        default=0,
        help="score on so many longer rows, each of several pairs",
    )
    command.add_argument(
        "--numbered",
        type=_count,
        default=0,
        help="instead, how often the number comes out, of so many rows with other numbers",
    )
    masks = get_args(Masks)
    command.add_argument("--masks", choices=masks, default=masks[0], help="as a twin was trained")
    _add_strategy(command)

    command = add("info", info)
    command.add_argument("--model", default="en-zh", help="a shipped model, or a folder")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 when it worked, 1 with a message on standard error when it did not."""
    args = _parser().parse_args(arguments)
    try:
        args.run(args)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
