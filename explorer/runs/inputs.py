"""Text to the tokens and rows that a model is given, bounded and refused in words."""

from bisect import bisect_right
from collections.abc import Callable, Sequence

from torch import Tensor

from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.sentences import clean_text
from models.config import ModelConfig
from models.refusals import Refusal
from models.rows import Rows, Stream

MAX_TOKENS = 1024  # per stream, special tokens included, padding not
MAX_PADS = 16
MAX_BYTES = 1_000_000_000
"""The most memory that reading one text may take, the model itself not counted."""


def limit(loaded: LoadedModel) -> int:
    """The most tokens per stream, special ones included, that are traced for this model."""
    fitting = bisect_right(
        range(MAX_TOKENS + 1), MAX_BYTES, key=lambda n: bytes_of(loaded.config, n)
    )
    return min(loaded.config.n_ctx, fitting - 1)


def room_for_output(loaded: LoadedModel) -> int:
    """The most tokens that a translator can write: the limit, less what its texts begin with."""
    return limit(loaded) - len(loaded.model.with_marks("tgt", ()))


def bytes_of(config: ModelConfig, n: int) -> int:
    """About what a model of this config takes to read a text of `n` tokens, in bytes.

    The stream before each block and the logits, and of one attention sublayer at a time the scores,
    the pattern and a copy, all in float32.
    """
    stream, cells = n * config.d_model, config.n_heads * n * n
    layers = config.n_layers + (config.encoder_layers if config.reads_source else 0)
    return 4 * (stream * (layers + 2) + n * config.vocab_size + 3 * cells)


def _too_long(key: str, loaded: LoadedModel, length: int) -> InputProblem:
    """The refusal of a text with so many tokens: by the memory it would take where that decides."""
    most = limit(loaded)
    if most == min(MAX_TOKENS, loaded.config.n_ctx):
        return InputProblem(key, limit=most, length=length)
    size, bound = round(bytes_of(loaded.config, length) / 1e6), round(MAX_BYTES / 1e6)
    return InputProblem("too_many_bytes", limit=most, length=length, size=size, bound=bound)


def given_tokens(loaded: LoadedModel, text: str) -> tuple[int, ...]:
    """What the model is given: `text` in the first stream that it reads, with its marks.

    Raises InputProblem for a text that cannot be used, as `clean_text`, and `too_many_tokens`
    or, where memory is what it would take too much of, `too_many_bytes`.
    """
    model = loaded.model
    tokens = model.with_marks(model.reads[0], text_tokens(loaded, text))
    if len(tokens) > limit(loaded):
        raise _too_long("too_many_tokens", loaded, len(tokens))
    return tokens


def continued_tokens(loaded: LoadedModel, text: str, more: str = "") -> tuple[int, ...]:
    """What a model of one text reads: `text` and what follows it, with its marks.

    Raises InputProblem as `given_tokens`, and `target_too_long` where only both together are.
    """
    given_tokens(loaded, text)
    return target_row(loaded, [*text_tokens(loaded, text), *target_tokens(loaded, more)])


def target_row(loaded: LoadedModel, tokens: Sequence[int]) -> tuple[int, ...]:
    """The row that the logits belong to: `tokens` with the marks that the model expects.

    Raises InputProblem `target_too_long`, or `too_many_bytes`.
    """
    row = loaded.model.with_marks("tgt", tokens)
    if len(row) > limit(loaded):
        raise _too_long("target_too_long", loaded, len(row))
    return row


def target_tokens(loaded: LoadedModel, target: str) -> list[int]:
    """The tokens of a given translation, or of its forced beginning; none for a blank one.

    Raises InputProblem for a text that cannot be used, as `clean_text`.
    """
    translates = "src" in loaded.model.reads
    encode = loaded.tokenizer.encode_output if translates else loaded.tokenizer.encode
    return _tokens(encode, target) if target.strip() else []


def rows_of(
    loaded: LoadedModel, given: Sequence[int], target: Sequence[int] = (), pads: int = 0
) -> Rows:
    """A batch of one with `pads` times padding behind each stream.

    `given` is the first stream that the model reads; `target` the second one of a model that has
    two. Raises InputProblem `bad_number`.
    """
    checked_number("pads", pads, 0, MAX_PADS)
    pad = loaded.marks.pad
    if len(loaded.model.reads) == 1:
        return Rows.of([given], None, pad, right=pads)
    return Rows.of([target], [given], pad, right=pads)


def room_after(loaded: LoadedModel, given: Tensor) -> int:
    """How many tokens can be written behind each row of `given`, ids [batch, pos] with marks: up to
    the limit, or as many as the row with the fewest mask tokens has, where those are filled in."""
    rows, mask = loaded.model.begin(given), loaded.marks.mask
    if loaded.model.predicts == "next":
        return limit(loaded) - rows.tgt.shape[1]
    return 0 if mask is None else int((rows.tgt == mask).sum(1).min())


def str_tokens(loaded: LoadedModel, rows: Rows, stream: Stream, row: int = 0) -> tuple[str, ...]:
    """What is shown for each token of a stream of one row; () for a stream that is not there."""
    if stream not in loaded.model.reads:
        return ()
    return tuple(loaded.str_tokens(rows.tokens(stream)[row].tolist()))


def checked_number(name: str, value: int | float, low: int | float, high: int | float) -> None:
    """Refuse a number outside `low` to `high`, and NaN. Raises InputProblem `bad_number`."""
    if not low <= value <= high:
        raise InputProblem("bad_number", name=name, value=value, low=low, high=high)


def text_tokens(loaded: LoadedModel, text: str) -> list[int]:
    """The tokens of a text without marks, at least one.

    Raises InputProblem as `clean_text`, `nothing_left`, and `no_tokens` where the tokenizer fails.
    """
    return _tokens(loaded.tokenizer.encode, text)


def _tokens(encode: Callable[[str], list[int]], text: str) -> list[int]:
    cleaned = clean_text(text)
    try:
        tokens = encode(cleaned)
    except Refusal as error:
        raise InputProblem("no_tokens", reason=error.alone()) from error
    if not tokens:
        raise InputProblem("nothing_left")
    return tokens
