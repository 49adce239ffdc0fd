"""Sentences that share a padded batch: are their numbers the same as alone?"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from explorer.library import LoadedModel
from explorer.runs.edits import Edit
from explorer.runs.generation import translate
from explorer.runs.inputs import given_tokens, rows_of, str_tokens, target_row
from explorer.runs.interventions import edit_functions
from explorer.runs.run import run
from models.hooks import LOGITS
from models.rows import Rows


@dataclass(frozen=True, eq=False)
class Member:
    """One sentence of a batch, under the same edits alone and in it.

    `src_str_tokens` and `tgt_str_tokens` are its rows in the batch, padding included; the target
    row is the translation that was made alone, behind its start mark (the text itself, and no
    source, for a model of one text, whose `alone` and `together` are ""; else the translations).
    `weight_moved` is the largest change of any attention weight between real tokens, and
    `logprob_moved` that of ln p of any token of the vocabulary after a real one.
    """

    text: str
    src_str_tokens: tuple[str, ...]
    tgt_str_tokens: tuple[str, ...]
    src_pads: int
    tgt_pads: int
    alone: str
    together: str
    weight_moved: float
    logprob_moved: float


def batch(
    loaded: LoadedModel, texts: Sequence[str], edits: Sequence[Edit] = ()
) -> tuple[Member, ...]:
    """Put sentences into one batch, padded on the right to the longest, and read each also alone.

    Raises InputProblem: as `given_tokens` and `target_row`.
    """
    alone = [_alone(loaded, text, edits) for text in texts]
    together = Rows.of(
        [row for row, _, _ in alone],
        [given for _, given, _ in alone] if loaded.config.reads_source else None,
        loaded.marks.pad,
    )
    whole = _run(loaded, together, edits)
    members = []
    for index, (text, (row, given, tokens)) in enumerate(zip(texts, alone, strict=True)):
        single = _run(loaded, rows_of(loaded, given or row, row), edits)
        n_pads = {
            stream: int((~together.valid(stream)[index]).sum()) for stream in loaded.model.reads
        }
        rewritten = tokens
        if loaded.config.reads_source:
            # A sentence is written with the padding that the batch gave its source. Sentences that
            # have ended leave a batch, so each is written by itself, from its row of the batch.
            rewritten, _ = translate(loaded, given, edits, n_pads["src"])
        members.append(
            Member(
                text=text,
                src_str_tokens=str_tokens(loaded, together, "src", index),
                tgt_str_tokens=str_tokens(loaded, together, "tgt", index),
                src_pads=n_pads.get("src", 0),
                tgt_pads=n_pads["tgt"],
                alone=loaded.tokenizer.decode(tokens),
                together=loaded.tokenizer.decode(rewritten),
                weight_moved=_weights_moved(loaded, single, whole, index),
                logprob_moved=_moved(
                    single[LOGITS].log_softmax(-1)[0],
                    whole[LOGITS].log_softmax(-1)[index],
                ),
            )
        )
    return tuple(members)


def _alone(
    loaded: LoadedModel, text: str, edits: Sequence[Edit]
) -> tuple[tuple[int, ...], tuple[int, ...], list[int]]:
    """Of one sentence: the row of its logits, its source, and its translation's tokens."""
    if not loaded.config.reads_source:
        return given_tokens(loaded, text), (), []
    given = given_tokens(loaded, text)
    tokens, _ = translate(loaded, given, edits)
    return target_row(loaded, tokens), given, tokens


def _run(loaded: LoadedModel, rows: Rows, edits: Sequence[Edit]) -> dict[str, Tensor]:
    """One pass over all rows: every pattern [batch, head, query, key], and the logits."""
    wanted = {LOGITS, *(site.hook("pattern") for site in loaded.sites)}
    changes = edit_functions(loaded.sites, edits, rows.src_valid, rows.tgt_valid)
    return run(loaded.model, rows, wanted, changes)


def _weights_moved(
    loaded: LoadedModel, single: dict[str, Tensor], whole: dict[str, Tensor], index: int
) -> float:
    hooks = [site.hook("pattern") for site in loaded.sites]
    return max(_moved(single[hook][0], whole[hook][index]) for hook in hooks)


def _moved(alone: Tensor, in_batch: Tensor) -> float:
    """The largest difference, where `in_batch` is wider by padding at the end of its axes."""
    for axis, size in enumerate(alone.shape):
        in_batch = in_batch.narrow(axis, 0, size)
    return float((alone - in_batch).abs().max()) if alone.numel() else 0.0  # no logits
