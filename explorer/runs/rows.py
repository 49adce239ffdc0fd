"""Text to the rows of tokens that a model is given: the source, and the decoder's input."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.sentences import clean_text

MAX_TOKENS = 128  # per stream, special tokens included, padding not
MAX_PADS = 16


@dataclass(frozen=True, eq=False)
class Row:
    """One stream of one sentence: `tokens`, what is shown for each, and which are real."""

    tokens: tuple[int, ...] = ()
    str_tokens: tuple[str, ...] = ()
    n_pads: int = 0

    @property
    def valid(self) -> np.ndarray:
        """Bool [pos], True = a real token; padding stands at the end."""
        return np.arange(len(self.tokens)) < len(self.tokens) - self.n_pads

    def tensors(self) -> tuple[Tensor, Tensor]:
        """A batch of one: tokens Int [1, pos] and valid Bool [1, pos]."""
        return torch.tensor([self.tokens]), torch.from_numpy(self.valid)[None]


def limit(loaded: LoadedModel) -> int:
    """The most tokens per stream, special ones included, that are traced for this model."""
    return min(MAX_TOKENS, loaded.config.n_ctx)


def source_row(loaded: LoadedModel, text: str, pads: int = 0) -> Row:
    """The source of a translation: the tokens of `text`, the end mark, `pads` times padding.

    Raises InputProblem for a text that cannot be used, as `clean_text`, and `too_many_tokens`.
    """
    tokens = [*_text_tokens(loaded, text), loaded.config.eos_id]
    if len(tokens) > limit(loaded):
        raise InputProblem("too_many_tokens", limit=limit(loaded), length=len(tokens))
    return _row(loaded, tokens, pads)


def prompt_row(loaded: LoadedModel, text: str, target: str = "", pads: int = 0) -> Row:
    """A decoder-only model's input: the start mark, `text`, and `target` if there is one.

    Raises InputProblem as `source_row`, and `target_too_long` where only both together are.
    """
    tokens = [loaded.config.bos_id, *_text_tokens(loaded, text)]
    if len(tokens) > limit(loaded):
        raise InputProblem("too_many_tokens", limit=limit(loaded), length=len(tokens))
    return target_row(loaded, [*tokens[1:], *target_tokens(loaded, target)], pads)


def target_row(loaded: LoadedModel, tokens: Sequence[int], pads: int = 0) -> Row:
    """A decoder's input: the start mark, `tokens`, `pads` times padding.

    Raises InputProblem `target_too_long`.
    """
    tokens = [loaded.config.bos_id, *tokens]
    if len(tokens) > limit(loaded):
        raise InputProblem("target_too_long", limit=limit(loaded), length=len(tokens))
    return _row(loaded, tokens, pads)


def target_tokens(loaded: LoadedModel, target: str) -> list[int]:
    """The tokens of a given translation, or of its forced beginning; none for a blank one.

    Raises InputProblem for a text that cannot be used, as `clean_text`.
    """
    return _text_tokens(loaded, target) if target.strip() else []


def checked_number(name: str, value: int | float, low: int | float, high: int | float) -> None:
    """Refuse a number outside `low` to `high`, and NaN. Raises InputProblem `bad_number`."""
    if not low <= value <= high:
        raise InputProblem("bad_number", name=name, value=value, low=low, high=high)


def _text_tokens(loaded: LoadedModel, text: str) -> list[int]:
    tokens = loaded.tokenizer.encode(clean_text(text))
    if not tokens:
        raise InputProblem("nothing_left")
    return tokens


def _row(loaded: LoadedModel, tokens: Sequence[int], pads: int) -> Row:
    checked_number("pads", pads, 0, MAX_PADS)
    padded = (*tokens, *[loaded.config.pad_id] * pads)
    return Row(padded, tuple(loaded.tokenizer.str_tokens(padded)), pads)
