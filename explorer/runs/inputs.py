"""Text to the tokens and rows of a model's input, with limits and refusals."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from torch import Tensor

from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.sentences import clean_text
from models.config import ModelConfig
from models.refusals import Refusal
from models.rows import Rows, Stream, as_tokens

MAX_TOKENS = 1024  # per sequence, with special tokens but without padding
MAX_PADS = 16
MAX_BYTES = 1_000_000_000
"""The maximum memory for reading one text, without the model itself."""


def limit(loaded: LoadedModel) -> int:
    """The maximum number of tokens per sequence, including special ones, for this model."""
    return min(loaded.config.n_ctx, _fitting(loaded.config, MAX_BYTES))


@lru_cache(maxsize=64)
def _fitting(config: ModelConfig, most_bytes: int) -> int:
    """The most tokens that take no more memory."""
    return bisect_right(range(MAX_TOKENS + 1), most_bytes, key=partial(bytes_of, config)) - 1


def room_for_output(loaded: LoadedModel) -> int:
    """The maximum number of tokens that a translator can generate: the limit minus its prefix."""
    return limit(loaded) - len(loaded.model.with_marks("tgt", ()))


def bytes_of(config: ModelConfig, n: int) -> int:
    """Approximate bytes that a model of this config needs to read a text of `n` tokens.

    The stream before each block, the logits, and for one attention sublayer at a time the scores,
    the pattern and a copy, all in float32.
    """
    stream, cells = n * config.d_model, config.n_heads * n * n
    layers = config.n_layers + config.encoder_layers
    return 4 * (stream * (layers + 2) + n * config.vocab_size + 3 * cells)


def _too_long(key: str, loaded: LoadedModel, length: int) -> InputProblem:
    """The refusal of a text with this many tokens, because of its memory if that is the limit."""
    most = limit(loaded)
    if most == min(MAX_TOKENS, loaded.config.n_ctx):
        return InputProblem(key, limit=most, length=length)
    size, bound = round(bytes_of(loaded.config, length) / 1e6), round(MAX_BYTES / 1e6)
    return InputProblem("too_many_bytes", limit=most, length=length, size=size, bound=bound)


def given_tokens(loaded: LoadedModel, text: str) -> tuple[int, ...]:
    """The model's input: `text` in the first stream that it reads, with special tokens.

    Raises InputProblem for an unusable text, as `clean_text`, and `too_many_tokens`, or
    `too_many_bytes` if memory is the limit.
    """
    model = loaded.model
    tokens = model.with_marks(model.reads[0], text_tokens(loaded, text))
    if len(tokens) > limit(loaded):
        raise _too_long("too_many_tokens", loaded, len(tokens))
    return tokens


def continued_tokens(loaded: LoadedModel, text: str, more: str = "") -> tuple[int, ...]:
    """The input of a model of one text: `text` and its continuation, with special tokens.

    Raises InputProblem as `given_tokens`, and `target_too_long` if only both together are too long.
    """
    given_tokens(loaded, text)
    return target_row(loaded, [*text_tokens(loaded, text), *target_tokens(loaded, more)])


def target_row(loaded: LoadedModel, tokens: Sequence[int]) -> tuple[int, ...]:
    """The sequence that the logits belong to: `tokens` with the special tokens of the model.

    Raises InputProblem `target_too_long`, or `too_many_bytes`.
    """
    row = loaded.model.with_marks("tgt", tokens)
    if len(row) > limit(loaded):
        raise _too_long("target_too_long", loaded, len(row))
    return row


def target_tokens(loaded: LoadedModel, target: str) -> list[int]:
    """The tokens of a given translation, or of its forced prefix; empty for a blank one.

    Raises InputProblem for an unusable text, as `clean_text`.
    """
    return _tokens(loaded.tokenizer.of("tgt").encode, target) if target.strip() else []


def rows_of(
    loaded: LoadedModel, given: Sequence[int], target: Sequence[int] = (), pads: int = 0
) -> Rows:
    """A batch of one with `pads` padding tokens after each stream.

    `given` is the first stream that the model reads; `target` the second one of a model with
    two. Raises InputProblem `bad_number`.
    """
    checked_number("pads", pads, 0, MAX_PADS)
    if len(loaded.model.reads) == 1:
        return Rows.of([given], None, loaded.marks, right=pads)
    return Rows.of([target], [given], loaded.marks, right=pads)


def room_after(loaded: LoadedModel, given: Tensor) -> int:
    """The number of tokens that can be generated after each row of `given`, ids [batch, pos] with
    special tokens: up to the limit, or, for a model that fills masks in, the minimum number of mask
    tokens per row."""
    rows, mask = loaded.model.begin(given), loaded.marks.mask
    if loaded.config.generates:
        return limit(loaded) - rows.tgt.shape[1]
    return 0 if mask is None else int((rows.tgt == mask).sum(1).min())


def str_tokens(loaded: LoadedModel, rows: Rows, stream: Stream, row: int = 0) -> tuple[str, ...]:
    """The labels of the tokens of a stream in one row; () for a stream that does not exist."""
    if stream not in loaded.model.reads:
        return ()
    return tuple(loaded.str_tokens(as_tokens(rows.tokens(stream)[row].tolist()), stream))


def checked_number(name: str, value: int | float, low: int | float, high: int | float) -> None:
    """Refuse a number outside `low` to `high`, and NaN. Raises InputProblem `bad_number`."""
    if not low <= value <= high:
        raise InputProblem("bad_number", name=name, value=value, low=low, high=high)


def text_tokens(loaded: LoadedModel, text: str) -> list[int]:
    """The tokens of a text without special tokens, at least one.

    Raises InputProblem as `clean_text`, `nothing_left`, and `no_tokens` if the tokenizer fails.
    """
    return _tokens(loaded.tokenizer.of("src").encode, text)


def _tokens(encode: Callable[[str], list[int]], text: str) -> list[int]:
    cleaned = clean_text(text)
    try:
        tokens = encode(cleaned)
    except Refusal as error:
        raise InputProblem("no_tokens", reason=error.alone()) from error
    if not tokens:
        raise InputProblem("nothing_left")
    return tokens
