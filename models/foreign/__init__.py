"""Models of other libraries: open a standard Hugging Face folder as a model of this library.

folder -> opening   inspects the folder and reports what cannot be opened
       -> families  by `model_type`: interprets the config and maps tensor names
       -> folds     convert stored tensors into parameters
       -> weights   checks every shape, then fills every parameter once
       -> tokens    the tokenizer: how tokens are displayed, the roles of the special tokens
"""

from models.foreign.families import FAMILIES
from models.foreign.finding import found
from models.foreign.opening import Look, look, open_folder, reads_source, revision
from models.foreign.placing import Placing
from models.tokenizer import few

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
