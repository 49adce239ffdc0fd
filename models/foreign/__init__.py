"""Models of other libraries: a folder as people have it, opened as one of ours.

folder -> opening   what it is, and what of it cannot be opened
       -> families  by its `model_type`: what its config means, and our name for each tensor
       -> folds     what turns their tensors into ours
       -> weights   every shape compared, then every parameter filled once
       -> tokens    its tokenizer: how tokens are shown, what the special ones are for
"""

from models.foreign.families import FAMILIES
from models.foreign.finding import found
from models.foreign.opening import Look, look, open_folder, reads_source, revision
from models.foreign.placing import Placing
from models.foreign.tokens import few

__all__ = [
    "FAMILIES",
    "Look",
    "Placing",
    "few",
    "found",
    "look",
    "open_folder",
    "reads_source",
    "revision",
]
