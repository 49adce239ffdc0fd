"""A decoding compared with one teacher-forced pass: equal logits under the causal mask.

Step by step, the logits of position t are computed before token t + 1 exists. In one pass over the
whole sequence every token is present, and only the causal mask hides the later ones. So with the
mask both give the same logits, up to rounding; without it, every position but the last has seen its
own answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from explorer.library import LoadedModel
from explorer.runs.edits import Edit, MaskSwitch
from explorer.runs.generation import Generation
from explorer.runs.interventions import edit_functions
from explorer.runs.run import run
from models.decoding import decode
from models.hooks import LOGITS, Record, visiting
from models.pictures.patches import as_tensor
from models.strategies import Greedy

CAUSAL_OFF = MaskSwitch("causal", False)


@dataclass(frozen=True, eq=False)
class OnePass:
    """The positions of a decoding, each computed twice: step by step, and in one pass.

    `queries` are the tokens read last in each step, `tokens` the tokens generated after them. The
    `gaps` [step] are the largest differences of any logit of a position: with the causal mask, and
    without it in both. `logprobs_…` [step] are ln p of each generated token in the one pass.
    `patterns[site]` and `masks[site]` [head, query, key] are from the one pass, restricted to the
    queries of the steps; `patterns_open` is the same without the mask.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    tokens: tuple[str, ...]
    gaps: Float[np.ndarray, " step"]
    gaps_open: Float[np.ndarray, " step"]
    logprobs: Float[np.ndarray, " step"]
    logprobs_open: Float[np.ndarray, " step"]
    patterns: dict[str, np.ndarray]
    masks: dict[str, np.ndarray]
    patterns_open: dict[str, np.ndarray]

    @property
    def largest(self) -> float:
        """The largest difference of any logit, with the causal mask."""
        return float(self.gaps.max())

    @property
    def largest_open(self) -> float:
        """The largest difference of any logit, without it."""
        return float(self.gaps_open.max())


def one_pass(
    loaded: LoadedModel, made: Generation, progress: Callable[[int, int], None] = lambda *_: None
) -> OnePass:
    """Compute the positions of a Generation in one pass, and step by step without a cache.

    `progress(done, total)` is called after every step. Edits of the Generation stay in force,
    except those of the causal mask. Raises ValueError for a Generation of another model, or without
    steps.
    """
    if made.model != loaded.name:
        raise ValueError(f"the decoding was made by {made.model!r}, not by {loaded.name!r}")
    if not made.steps:
        raise ValueError("the decoding has no steps")
    kept = [
        edit for edit in made.edits if not (isinstance(edit, MaskSwitch) and edit.part == "causal")
    ]
    n = len(made.steps)
    stepped, whole, patterns, masks = _both(loaded, made, kept, lambda done: progress(done, 2 * n))
    stepped_open, whole_open, patterns_open, _ = _both(
        loaded, made, [*kept, CAUSAL_OFF], lambda done: progress(n + done, 2 * n)
    )
    return OnePass(
        queries=tuple(step.input_tokens[-1] for step in made.steps),
        keys=made.steps[-1].input_tokens,
        tokens=tuple(step.chosen_str for step in made.steps),
        gaps=np.abs(stepped - whole).max(1),
        gaps_open=np.abs(stepped_open - whole_open).max(1),
        logprobs=_log_softmax(whole)[np.arange(n), list(made.tokens)],
        logprobs_open=_log_softmax(whole_open)[np.arange(n), list(made.tokens)],
        patterns=patterns,
        masks=masks,
        patterns_open=patterns_open,
    )


def _both(
    loaded: LoadedModel, made: Generation, edits: Sequence[Edit], tell: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Logits [step, vocab] step by step and in one pass; patterns and masks of the one pass."""
    given = as_tensor([made.given])
    n = len(made.tokens)
    functions = edit_functions(loaded.sites, edits)
    logits = []
    # No cache: without the mask, keys and values of earlier tokens change.
    steps = decode(loaded.model, given, Greedy(), n, prefix=made.tokens, use_cache=False)
    for done in range(n):
        tell(done)
        record = Record(lambda name: name == LOGITS, functions)
        with visiting(record):
            next(steps)
        logits.append(record.activations[LOGITS][0, -1])
    sites = [site for site in loaded.sites if site.query_stream == "tgt"]
    wanted = {site.hook(what) for site in sites for what in ("pattern", "mask")}
    first = loaded.model.begin(given)
    row = torch.cat((first.tgt, torch.tensor([made.tokens[:-1]], dtype=torch.long)), dim=1)
    seen = run(loaded.model, replace(first, tgt=row), {LOGITS, *wanted}, functions)
    patterns, masks = (
        {site.name: seen[site.hook(what)][0, :, -n:].numpy() for site in sites}
        for what in ("pattern", "mask")
    )
    whole = seen[LOGITS][0, -n:]
    return torch.stack(logits).double().numpy(), whole.double().numpy(), patterns, masks


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
