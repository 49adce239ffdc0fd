"""The commands that use a model: translate, generate and describe it."""

import argparse
import sys

import torch
from torch import Tensor

from models.checkpoint import Checkpoint
from models.decoding import best, decode
from models.foreign import few
from models.strategies import Rules
from models.tokenizer import MASK
from models.training import options
from models.training.evaluate import translate
from models.transformer import Model

USUALLY = 64
"""Default maximum number of new tokens for `generate`."""


def translate_text(args: argparse.Namespace) -> None:
    """Translate the given sentences, or standard input, one sentence per line."""
    checkpoint = options.open_checkpoint(args.model, options.placing_of(args))
    if "src" not in checkpoint.model.reads:
        config, then = checkpoint.config, "; use `generate`"
        does = "fills in the [MASK]s of a text" if config.fills else "continues a text"
        if not config.lm_head:
            does, then = "reads a text and writes none", ""
        raise ValueError(f"{args.model} does not translate: it {does}{then}")
    sentences = args.text + args.more or [
        line for line in sys.stdin.read().splitlines() if line.strip()
    ]
    strategy = options.strategy_of(args)
    _say_unread(checkpoint, sentences)
    rules = _rules_of(checkpoint)
    lines = translate(checkpoint.model, checkpoint.tokenizer, sentences, strategy, rules)
    for sentence, line in zip(sentences, lines, strict=True):
        print(line)
        if not line:
            _note(f"nothing is written for {sentence!r}: the model ends it at once")


def _say_unread(checkpoint: Checkpoint, texts: list[str]) -> None:
    """Report characters missing from the vocabulary: read as the unknown token, or dropped."""
    tokenizer, name = checkpoint.tokenizer.of("src"), checkpoint.folder.name
    unread = dict.fromkeys(part for text in texts for part in tokenizer.unknown(text))
    for dropped, words in ((False, "read as an unknown token"), (True, "dropped")):
        some = [part for part in unread if tokenizer.drops(part) == dropped]
        if some:
            _note(f"not in the vocabulary of {name}, {words}: {' '.join(some)}")


def _rules_of(checkpoint: Checkpoint) -> Rules | None:
    """The rules of the model's generation_config.json; a note names them and all other settings.

    None if there are none, or if the model fills in masks, where nothing is generated in order.
    """
    asked = checkpoint.asked
    if asked is None:
        return None
    fills = checkpoint.config.fills
    left = (*(asked.applied if fills else ()), *asked.chosen, *asked.ignored)
    if asked.rules and not fills:
        _note(
            f"generation settings of {checkpoint.folder.name}, applied: {', '.join(asked.applied)}"
        )
    if left:
        _note(f"generation settings of {checkpoint.folder.name}, not applied: {', '.join(left)}")
    return None if fills else asked.rules


def _note(words: str) -> None:
    """Print a note to stderr, since stdout has one line per sentence."""
    print(f"note: {words}", file=sys.stderr)


def generate(args: argparse.Namespace) -> None:
    """Generate with any model: continue a text, translate it, or fill in its [MASK]s."""
    checkpoint = options.open_checkpoint(args.model, options.placing_of(args))
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    strategy = options.strategy_of(args)
    if not model.config.lm_head:
        raise ValueError(
            f"{args.model} writes nothing: it has no LM head. `info`, `export` and "
            "`certify` work on it"
        )
    if model.config.fills and not tokenizer.has_mask(args.text):
        raise ValueError(
            f"{args.model} fills in what is masked: write {MASK} for each missing word"
        )
    _say_unread(checkpoint, [args.text])
    tokens = model.with_marks(model.reads[0], tokenizer.of("src").encode(args.text))
    src = torch.tensor([tokens])
    most = _most_new(model, src) if args.max_new_tokens is None else args.max_new_tokens
    steps = decode(model, src, strategy, most, rules=_rules_of(checkpoint))
    for hypothesis in best(steps):
        print(tokenizer.decode(model.whole(tokens, hypothesis.tokens)))


def _most_new(model: Model, given: Tensor) -> int:
    """USUALLY, or as many tokens as fit after `given`, ids [1, pos], with a note if fewer fit."""
    longest = model.config.longest
    if longest is None or model.config.fills:
        return USUALLY
    left = longest - model.begin(given).tgt.shape[1] + 1  # the last new token is never read
    if not 0 < left < USUALLY:  # `decode` reports a prompt that is too long
        return USUALLY
    _note(f"at most {left} new tokens fit: n_ctx = {longest} positions were learned")
    return left


def info(args: argparse.Namespace) -> None:
    """Print a model's sizes, design, parameters and attention sites."""
    checkpoint = options.open_checkpoint(args.model, options.placing_of(args))
    print(checkpoint.config.to_json(), end="")
    for name, child in checkpoint.model.named_children():
        count = sum(p.numel() for p in child.parameters())
        if count:
            print(f"{name:12} {count:>12,} parameters")
    total = sum(p.numel() for p in checkpoint.model.parameters())
    print(f"{'all':12} {total:>12,} parameters (a tied matrix counts once)")
    for site in checkpoint.model.attention_sites():
        print(
            f"{site.name}: {site.n_heads} heads, {site.query_stream} attends to {site.key_stream}"
        )
    if checkpoint.not_shown:
        _note(f"stored, but not shown here: {', '.join(checkpoint.not_shown)}")
    n_tokens, vocab_size = checkpoint.tokenizer.vocab_size, checkpoint.config.vocab_size
    if few(n_tokens, vocab_size):
        _note(f"its tokenizer has {n_tokens:,} of {vocab_size:,} tokens: it may be another model's")


def add_commands(commands: options.Commands) -> None:
    """Add the commands of this module to what `ArgumentParser.add_subparsers()` returned."""
    command = options.add_command(commands, "translate", translate_text)
    command.add_argument("text", nargs="*", help="the sentences")
    command.add_argument(
        "--text", dest="more", action="append", default=[], help="another way to give a sentence"
    )
    options.add_model(command, "en-zh")
    options.add_strategy(command)

    command = options.add_command(commands, "generate", generate)
    command.add_argument("text")
    options.add_model(command)
    command.add_argument(
        "--max-new-tokens", type=int, help=f"default: {USUALLY}, or as many as fit"
    )
    options.add_strategy(command)

    options.add_model(options.add_command(commands, "info", info), "en-zh", positional=True)
