"""One patched run in detail: its most probable tokens, and its output."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from explorer.analysis.patching.maps import Cell, What, patches_of
from explorer.analysis.patching.pair import Pair
from explorer.analysis.patching.patches import Patch, patched_logits, patching
from explorer.library import LoadedModel
from explorer.numerics import softmax
from explorer.runs.interventions import edit_functions
from models.hooks import NO_EDITS, Edits, visiting
from models.rows import Rows

N_TOP = 4
"""Most probable tokens listed per run."""


MOST_WRITTEN = 12
"""Tokens shown of a text's continuation."""


@dataclass(frozen=True)
class TokenProbabilities:
    """A token and its probability in the first run, in the second, and in the patched one."""

    token: int
    str_token: str
    probs: tuple[float, float, float]


@dataclass(frozen=True)
class PatchedRun:
    """The second run under some patches, compared with the first run and the unpatched second run.

    `effect` as `Pair.recovered`; `answers` are the most probable tokens of all three runs, `texts`
    their outputs from the question on. `third` is the token that the patched run predicts, if it is
    neither of the two answers.
    """

    effect: float
    answers: tuple[TokenProbabilities, ...]
    texts: tuple[str, str, str]
    third: TokenProbabilities | None


def run_cell(loaded: LoadedModel, pair: Pair, what: What, cell: Cell) -> PatchedRun:
    """The run with the one patch of a cell. Raises KeyError for a cell without a patch."""
    return patched_run(loaded, pair, [patches_of(loaded, pair, what)[0][cell]])


def patched_run(loaded: LoadedModel, pair: Pair, patches: Sequence[Patch]) -> PatchedRun:
    """Run the second text under `patches` and generate from it."""
    logits = patched_logits(loaded, pair, patches)
    of_runs = [softmax(of_run) for of_run in (*pair.logits, logits)]
    tops = [np.argsort(-probs, kind="stable")[:N_TOP].tolist() for probs in of_runs]
    tokens = list(dict.fromkeys([*pair.answers, *(token for top in tops for token in top)]))
    tokens.sort(key=lambda token: -max(float(probs[token]) for probs in of_runs))
    before = int(pair.rows[1].tgt[0, pair.question.places[1]])
    answers = tuple(
        TokenProbabilities(
            token,
            loaded.str_tokens((before, token))[-1],
            (float(of_runs[0][token]), float(of_runs[1][token]), float(of_runs[2][token])),
        )
        for token in tokens
    )
    best = max(answers, key=lambda answer: answer.probs[2])
    own = edit_functions(loaded.sites, pair.edits)
    return PatchedRun(
        effect=float(pair.recovered(np.array([pair.gap(logits)]))[0]),
        answers=answers,
        third=None if best.token in pair.answers else best,
        texts=(
            written(loaded, pair.rows[0], own),
            written(loaded, pair.rows[1], own),
            written(loaded, pair.rows[1], own, patches),
        ),
    )


def written(
    loaded: LoadedModel, rows: Rows, edits: Edits = NO_EDITS, patches: Sequence[Patch] = ()
) -> str:
    """The model's greedy output after a row, while `patches` stay at their positions.

    A translation is returned whole; of a continued text its beginning; of a text with mask tokens
    the text, each mask filled independently. "…" if it would continue. Everything is read again for
    every token, since a patch changes what a cache would hold.
    """
    model, marks = loaded.model, loaded.marks
    rows = rows.to(next(model.parameters()).device)
    n_given, ended = rows.tgt.shape[1], False
    visitor = edits.then(patching([list(patches)]))
    with torch.inference_mode(), visiting(visitor):
        if not model.config.generates:
            guesses = model.read(rows)[0].argmax(-1)
            pairs = zip(rows.tgt[0].tolist(), guesses.tolist(), strict=True)
            whole = [guess if token == marks.mask else token for token, guess in pairs]
            return loaded.tokenizer.decode(whole)
        memory, rows = model.memory_of(rows), replace(rows, tgt_valid=None)
        # The same maximum length as in `translate`.
        most = MOST_WRITTEN if memory is None else 2 * memory.shape[1] + 21 - n_given
        for _ in range(min(most, loaded.config.n_ctx - n_given)):
            x = model.last_stack.run(rows, memory)
            logits = model.logits_of(x[:, -1:])[0, -1]
            if marks.pad is not None and marks.pad == marks.start:
                logits[marks.pad] = -torch.inf  # a decoder that begins with padding never writes it
            token = int(logits.argmax())
            if marks.ends(token):
                ended = True
                break
            new = rows.tgt.new_tensor([[token]])
            rows = replace(rows, tgt=torch.cat((rows.tgt, new), 1))
    begins = 1 if model.config.reads_source else n_given
    return loaded.tokenizer.decode(rows.tgt[0, begins:].tolist()) + ("" if ended else "…")
