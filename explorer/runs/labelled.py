"""The labels that a classification head gives to a text, or to each of its tokens."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from models.foreign.classes import TaskHead
from models.rows import as_tensor


@dataclass(frozen=True, eq=False)
class Labelled:
    """What a head says: `chances` are probabilities, or a regression's values.

    One row for the whole text; of a head that reads each token, one for each of `tgt_tokens`.
    """

    head: TaskHead
    chances: Float[np.ndarray, "row label"]


def labelled(loaded: LoadedModel, traced: Trace) -> Labelled:
    """The labels of a run, under its edits, by the model's classification head."""
    read = loaded.classifier
    assert read is not None
    stack = traced.stacks[-1]
    stream = torch.tensor(traced.activations[stack.hook("resid_final")]).float()
    with torch.inference_mode():
        x = loaded.part(stack.path("final_norm"))(stream)[None]
        valid = torch.tensor(traced.tgt_valid)[None]
        chances = read.chances(read(x, valid, as_tensor([traced.tgt_tokens])))
    return Labelled(read.head, (chances[0] if chances.ndim == 3 else chances).numpy())
