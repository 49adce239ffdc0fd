"""Sentences that share a padded batch: do they read as they do alone?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from explorer.library import LoadedModel
from explorer.runs.edits import Edit
from explorer.runs.generation import translate
from explorer.runs.interventions import edit_functions
from explorer.runs.rows import Row, prompt_row, source_row, target_row
from models.hooks import Record, visiting
from models.transformer import DecoderOnly


@dataclass(frozen=True, eq=False)
class Member:
    """One sentence of a batch, under the same edits alone and in it.

    `src_str_tokens` and `tgt_str_tokens` are its rows in the batch, padding included; the target
    row begins with `<s>` and is the translation that was made alone (decoder-only: the text, and
    no source). `alone` and `together` are the translations, "" for a decoder-only model.
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

    Raises InputProblem: as `source_row` and `target_row`.
    """
    alone = [_alone(loaded, text, edits) for text in texts]
    width = {
        stream: max(len(rows[stream].tokens) for rows, _ in alone) for stream in ("src", "tgt")
    }
    padded = [
        {stream: _widened(loaded, row, width[stream]) for stream, row in rows.items()}
        for rows, _ in alone
    ]
    whole = _run(loaded, padded, edits)
    members = []
    for index, (text, (rows, tokens), in_batch) in enumerate(
        zip(texts, alone, padded, strict=True)
    ):
        single = _run(loaded, [rows], edits)
        together = tokens
        if rows["src"].tokens:
            # A sentence is written with the padding that the batch gave its source. Sentences that
            # have ended leave a batch, so each is written by itself, from its row of the batch.
            together, _ = translate(loaded, in_batch["src"], edits)
        members.append(
            Member(
                text=text,
                src_str_tokens=in_batch["src"].str_tokens,
                tgt_str_tokens=in_batch["tgt"].str_tokens,
                src_pads=in_batch["src"].n_pads,
                tgt_pads=in_batch["tgt"].n_pads,
                alone=loaded.tokenizer.decode(tokens),
                together=loaded.tokenizer.decode(together),
                weight_moved=_weights_moved(loaded, single, whole, index),
                logprob_moved=_moved(
                    single["hook_logits"].log_softmax(-1)[0],
                    whole["hook_logits"].log_softmax(-1)[index],
                ),
            )
        )
    return tuple(members)


def _alone(
    loaded: LoadedModel, text: str, edits: Sequence[Edit]
) -> tuple[dict[str, Row], list[int]]:
    """The rows of one sentence without padding, and its translation's tokens."""
    if isinstance(loaded.model, DecoderOnly):
        return {"src": Row(), "tgt": prompt_row(loaded, text)}, []
    src = source_row(loaded, text)
    tokens, _ = translate(loaded, src, edits)
    return {"src": src, "tgt": target_row(loaded, tokens)}, tokens


def _widened(loaded: LoadedModel, row: Row, width: int) -> Row:
    pads = width - len(row.tokens)
    tokens = (*row.tokens, *[loaded.config.pad_id] * pads)
    return Row(tokens, tuple(loaded.tokenizer.str_tokens(tokens)), pads)


def _run(
    loaded: LoadedModel, rows: Sequence[dict[str, Row]], edits: Sequence[Edit]
) -> dict[str, Tensor]:
    """One pass over all rows: every pattern [batch, head, query, key], and the logits."""
    valid, tokens = {}, {}
    for stream in ("src", "tgt"):
        tokens[stream] = torch.tensor([each[stream].tokens for each in rows], dtype=torch.long)
        valid[stream] = torch.from_numpy(np.stack([each[stream].valid for each in rows]))
    wanted = {"hook_logits", *(site.hook("pattern") for site in loaded.sites)}
    record = Record(
        wanted.__contains__, edit_functions(loaded.sites, edits, valid["src"], valid["tgt"])
    )
    with torch.inference_mode(), visiting(record):
        if isinstance(loaded.model, DecoderOnly):
            loaded.model(tokens["tgt"], valid["tgt"])
        else:
            loaded.model(tokens["src"], tokens["tgt"], valid["src"], valid["tgt"])
    return record.activations


def _weights_moved(
    loaded: LoadedModel, single: dict[str, Tensor], whole: dict[str, Tensor], index: int
) -> float:
    hooks = [site.hook("pattern") for site in loaded.sites]
    return max(_moved(single[hook][0], whole[hook][index]) for hook in hooks)


def _moved(alone: Tensor, in_batch: Tensor) -> float:
    """The largest difference, where `in_batch` is wider by padding at the end of its axes."""
    for axis, size in enumerate(alone.shape):
        in_batch = in_batch.narrow(axis, 0, size)
    return float((alone - in_batch).abs().max())
