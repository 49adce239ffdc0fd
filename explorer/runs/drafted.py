"""A translation under edits, drafted from the one without them: most tokens stay the same.

A decoder reads many tokens in hardly more time than one: each pass loads every weight. So the
tokens of a draft are read together, and are accepted up to the first that the model itself would
not have generated (speculative decoding: Leviathan, Kalman and Matias 2023, with a given draft
instead of a small model's). The output does not depend on the draft, up to float32 rounding if two
tokens are equally probable.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from explorer.library import LoadedModel
from explorer.runs.edits import CellEdit, Edit
from explorer.runs.interventions import covers, edit_functions, rules_in_force, sizes_in_force
from models.hooks import AttentionSite, visiting

BEYOND = 2**31
"""A position that no row has."""


def rewrite(
    loaded: LoadedModel,
    src: Tensor,
    src_valid: Tensor,
    edits: Sequence[Edit],
    draft: Sequence[int],
    most: int,
) -> tuple[list[int], bool]:
    """The greedy translation of `src` [1, pos] under `edits`: its tokens, and whether it ended.

    `draft` is a guess at it, without an end token; at most `most` tokens are generated.
    Raises ValueError if the model returns no probabilities (NaN).
    """
    model, marks = loaded.model, loaded.marks
    rows = model.begin(src, src_valid).to(next(model.parameters()).device)
    written: list[int] = []
    guess = list(draft)
    with torch.inference_mode(), visiting(edit_functions(loaded.sites, edits, src_valid)):
        memory = model.memory_of(rows)
        while len(written) < most:
            end = min(first_seen(loaded.sites, edits, len(written)), most)
            ahead = guess[: end - len(written) - 1]
            tgt = torch.cat((rows.tgt, rows.tgt.new_tensor([[*written, *ahead]])), 1)
            x = model.last_stack.run(replace(rows, tgt=tgt), memory)
            logits = model.logits_of(x[:, len(written) :])[0]
            if logits.isnan().any():
                raise ValueError("the model's logits give no probabilities (NaN)")
            if marks.pad is not None and marks.pad == marks.start:
                logits[:, marks.pad] = -torch.inf  # as in `models.decoding`
            for at, token in enumerate(logits.argmax(-1).tolist()):
                if marks.ends(token):
                    return written, True
                written.append(token)
                guess = _behind(guess, token)
                if at == len(ahead) or token != ahead[at]:
                    break
    return written, False


def first_seen(sites: Sequence[AttentionSite], edits: Sequence[Edit], query: int) -> int:
    """The first position after `query` that an earlier query may attend to; past the end if none.

    A token generated later at such a position changes what was computed for earlier ones.
    """
    own = [site for site in sites if site.kind == "self" and site.query_stream == "tgt"]
    if not rules_in_force(edits)["causal"] or query + 1 < sizes_in_force(edits).get("prefix", 0):
        return query + 1
    places = (
        edit.key
        for edit in edits
        if isinstance(edit, CellEdit) and edit.open and edit.key > max(edit.query, query)
        if any(covers(edit, site) for site in own)
    )
    return min(places, default=BEYOND)


def _behind(guess: list[int], token: int) -> list[int]:
    """The rest of a guess after a token, which occurs later in it or replaces its first token."""
    at = guess.index(token) if token in guess else 0
    return guess[at + 1 :]
