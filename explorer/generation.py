"""One sentence decoded token by token, with what the model really computed at every step."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from explorer.edits import Edit
from explorer.interventions import edit_functions
from explorer.library import LoadedModel
from explorer.rows import Row, limit
from models.hooks import visiting


@dataclass(frozen=True)
class Candidate:
    """One possible next token. `logprob` is the model's own (natural log); `prob` is after
    temperature, top-k and top-p, and 0 when those cut it; `kept` says that they did not."""

    token: int
    str_token: str
    logprob: float
    prob: float
    kept: bool


@dataclass(frozen=True, eq=False)
class GenerationStep:
    """One step: the row so far, what could follow it, what did, and where the model looked.

    `input_tokens` is the decoder's row so far, `<s>` included; `candidates` are the 12 most
    probable by the model's own account; `rows[site name]` is this step's attention
    [head, key] of every decoder self- and cross-attention site.
    """

    index: int
    input_tokens: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    chosen: int
    chosen_str: str
    chosen_prob: float
    rows: dict[str, np.ndarray] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Generation:
    """A finished decoding. `steps` follow the text that was chosen in the end (for a beam: the
    best hypothesis); `logprob` is its sum over `steps`; `finished` says that the end mark came.

    `hypotheses` are (text, logprob, score), best first; one for greedy and sampling.
    """

    model: str
    src_str_tokens: tuple[str, ...]
    steps: tuple[GenerationStep, ...]
    text: str
    finished: bool
    logprob: float
    hypotheses: tuple[tuple[str, float, float], ...]
    edits: tuple[Edit, ...] = ()
    ignored_edits: tuple[Edit, ...] = ()
    unknown: tuple[str, ...] = ()


def translate(loaded: LoadedModel, src: Row, edits: Sequence[Edit] = ()) -> tuple[list[int], bool]:
    """The greedy translation of a source row under `edits`: its tokens, and whether it ended."""
    src_tokens, src_valid = src.tensors()
    longest = min(limit(loaded) - 1, 2 * len(src.tokens) + 20)
    row = [loaded.config.bos_id]
    with torch.inference_mode(), visiting(edit_functions(loaded.sites, edits, src_valid)):
        for _ in range(longest):
            logits = loaded.model(src_tokens, torch.tensor([row]), src_valid)
            token = int(logits[0, -1].argmax())
            if token == loaded.config.eos_id:
                return row[1:], True
            row.append(token)
    return row[1:], False
