"""`python -m recipes`: the commands that only the shipped models need."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from models.training import options
from models.training.commands import rows_of
from models.training.corpus import DataConfig, read_rows
from models.training.data import read_pairs, read_texts
from models.training.evaluate import evaluate_translation
from models.training.recipe import read_recipe
from recipes.drawing import Split, save_pictures
from recipes.glossing import CREDIT, glosses_of
from recipes.joining import joined_pairs
from recipes.ngram import trigram_score
from recipes.numbering import numbered_rows, numbers_kept

DESCRIPTION = "`python -m recipes`: draw words, gloss tokens, score on made rows."


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return 0 on success, or 1 after printing an error to stderr."""
    return options.run("python -m recipes", DESCRIPTION, add_commands, arguments)


def draw_pictures(args: argparse.Namespace) -> None:
    """Draw pictures of words with the installed fonts, for a model that reads them."""
    args.out.parent.mkdir(parents=True, exist_ok=True)
    files = args.out, args.split, args.count, args.seed, args.fonts, args.words
    print(save_pictures(*files, args.chinese))


def evaluate_made(args: argparse.Namespace) -> None:
    """Score a translator on rows made from pairs, longer ones or ones with other numbers; or a
    trigram model on texts. JSON."""
    checkpoint = options.open_checkpoint(args.model, options.placing_of(args))
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    if args.recipe:
        rows = rows_of(read_recipe(args.recipe, []), args.pairs, "--pairs", held_apart=True)
    else:
        rows = [] if args.trigram else read_rows(args.pairs, DataConfig(), paired=True)
    strategy = options.strategy_of(args)
    if args.trigram:
        texts, counted = read_texts(args.pairs), read_texts(args.trigram)
        figures = trigram_score(model, tokenizer, texts, counted)
    elif args.joined:
        longer = joined_pairs(rows, args.joined, seed=1)
        figures = asdict(evaluate_translation(model, tokenizer, longer, strategy))
    else:
        others = numbered_rows(rows, args.numbered, seed=1)
        figures = numbers_kept(model, tokenizer, others, strategy)
    print(json.dumps({"model": checkpoint.folder.name, **figures}))


def gloss(args: argparse.Namespace) -> None:
    """Write the usual translation of each token of a translator, in both directions."""
    tokenizer = options.open_checkpoint(args.model, options.placing_of(args)).tokenizer
    pairs = read_pairs(args.pairs)
    both = glosses_of(pairs, tokenizer) | glosses_of([row[::-1] for row in pairs], tokenizer)
    lines = [f"{word}\t{phrase}\t{share:.0%}\n" for word, (phrase, share) in sorted(both.items())]
    args.out.write_text(CREDIT + "".join(lines), encoding="utf-8")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, 1 or more")
    return int(text)


def add_commands(commands: options.Commands) -> None:
    """Add every command to the result of `ArgumentParser.add_subparsers()`."""
    command = options.add_command(commands, "draw", draw_pictures)
    command.add_argument("--words", type=Path, required=True, help="source TAB target")
    command.add_argument("--split", choices=get_args(Split), default="train", help="of the faces")
    command.add_argument("--count", type=_count, default=256_000, help="how many pictures")
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--chinese", type=float, default=0.0, help="share of Chinese, 0 to 1")
    command.add_argument("--fonts", type=Path, default=Path("/usr/share/fonts"))
    command.add_argument("--out", type=Path, required=True, help="the .npz to write")

    command = options.add_command(commands, "gloss", gloss)
    options.add_model(command, "en-zh")
    command.add_argument("--pairs", type=Path, required=True, help="source TAB target")
    command.add_argument("--out", type=Path, required=True, help="the .tsv to write")

    command = options.add_command(commands, "evaluate", evaluate_made)
    options.add_model(command, "en-zh")
    command.add_argument("--pairs", type=Path, required=True, help="source TAB target, or text")
    command.add_argument("--recipe", help="read the pairs as this recipe does")
    made = command.add_mutually_exclusive_group(required=True)
    made.add_argument("--joined", type=_count, help="longer rows, each made of several pairs")
    made.add_argument("--numbered", type=_count, help="rows with other numbers: how many are kept")
    made.add_argument("--trigram", type=Path, help="text for a trigram model")
    options.add_strategy(command)


if __name__ == "__main__":
    sys.exit(main())
