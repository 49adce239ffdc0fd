"""The words that explain a written token, and their replacement when they are removed."""

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from explorer.library import LoadedModel
from explorer.runs.rerun import require_same_model, written_tokens
from explorer.runs.trace import Trace
from models.foreign.placing import outside
from models.hooks import Change, StackSite
from models.pictures.patches import Patches
from models.rows import Stream


@dataclass(frozen=True)
class Explained:
    """One token, `token`, predicted at `position` of the target, and the `words` that were read
    for it: positions of `stream`, without special tokens."""

    position: int
    token: int
    str_token: str
    stream: Stream
    words: tuple[int, ...]


def explained(loaded: LoadedModel, traced: Trace, position: int) -> Explained:
    """The token written after `position` (or at it, if the model fills masks in), or the predicted
    one if none was written; its words are those of the source, or of the text read so far.

    Raises ValueError for another model's Trace, IndexError for a position that is out of range or
    padding, and for any position if the model has no logits.
    """
    require_same_model(loaded, traced)
    written, n_real = written_tokens(traced), int(traced.tgt_valid.sum())
    if not 0 <= position < n_real or not traced.config.lm_head:
        raise IndexError(f"position {position} has no prediction")
    token = written[position] if position < len(written) else traced.predicted_tokens[position]
    stream: Stream = loaded.model.reads[0]
    row, valid = traced.tgt_tokens, traced.tgt_valid
    if stream == "src":
        row, valid = traced.src_tokens, traced.src_valid
    last = position if stream == "tgt" and traced.config.is_causal else len(row)
    marks = traced.marks.of(stream)
    words = tuple(
        at
        for at, each in enumerate(row)
        if at <= last and valid[at] and (each not in marks or each == marks.unknown)
    )
    before = traced.tgt_tokens[position]
    return Explained(position, token, loaded.str_tokens((before, token))[-1], stream, words)


def stack_of(loaded: LoadedModel, stream: Stream) -> StackSite:
    """The stack that reads a stream."""
    return next(stack for stack in loaded.model.stacks() if stack.stream == stream)


def no_word(loaded: LoadedModel, stream: Stream) -> Tensor:
    """The embedding of a neutral input, scaled as by the model: the mask token's if the model has
    one, a blank patch's if it reads pictures, otherwise the mean of the whole vocabulary. [d_model]
    """
    stack = loaded.model.get_submodule(stack_of(loaded, stream).name)
    if isinstance(stack.embed, Patches):
        return outside(stack.embed.bias) * float(stack.embed_scale)  # type: ignore[arg-type]
    table = loaded.part(stack_of(loaded, stream).path("embed")).get_parameter("weight").detach()
    mask = loaded.marks.mask
    vector = table.mean(0) if mask is None or not loaded.fills_in else table[mask]
    return vector * float(stack.embed_scale)  # type: ignore[arg-type]


def replacing(x: Tensor, words: list[list[int]], vector: Tensor) -> Tensor:
    """Embeddings [row, pos, d_model] in which the words of each row are `vector`."""
    x = x.clone()
    for row, places in enumerate(words):
        x[row, places] = vector.to(x.dtype)
    return x


def hiding(mask: Tensor, words: list[list[int]]) -> Tensor:
    """A mask [row, head, query, key] in which no query may attend to the words of its row."""
    mask = mask.clone()
    for row, places in enumerate(words):
        mask[row, :, :, places] = False
    return mask


def hidden(loaded: LoadedModel, stream: Stream, words: list[list[int]]) -> dict[str, Change]:
    """Changes of every mask whose keys are of this stream."""
    return {
        site.hook("mask"): partial(hiding, words=words)
        for site in loaded.sites
        if site.key_stream == stream
    }
