"""Every family of models that can be opened, by the `model_type` of its config.json."""

from collections.abc import Callable
from dataclasses import dataclass

from models.foreign.bert import bert, distilbert, roberta
from models.foreign.gemma import gemma, gemma2, gemma3, gemma3_with_pictures
from models.foreign.gpt2 import gpt2
from models.foreign.llama import llama, mistral, qwen2, qwen3
from models.foreign.marian import marian
from models.foreign.neox import neox
from models.foreign.plan import Keys, Plan
from models.foreign.t5 import mt5, t5


@dataclass(frozen=True)
class Family:
    """How a config is read, and the prefixes that stored names may have: who saved decides."""

    plan: Callable[[Keys], Plan]
    prefixes: tuple[str, ...] = ("model.",)


FAMILIES: dict[str, Family] = {
    "gpt2": Family(gpt2, ("transformer.",)),
    "llama": Family(llama),
    "mistral": Family(mistral),
    "qwen2": Family(qwen2),
    "qwen3": Family(qwen3),
    "gemma": Family(gemma),
    "gemma2": Family(gemma2),
    "gemma3_text": Family(gemma3),
    "gemma3": Family(
        gemma3_with_pictures,
        ("model.language_model.", "language_model.model.", "language_model.", "model."),
    ),
    "gpt_neox": Family(neox, ("gpt_neox.",)),
    "marian": Family(marian),
    "t5": Family(t5, ()),
    "mt5": Family(mt5, ()),
    "bert": Family(bert, ("bert.",)),
    "roberta": Family(roberta, ("roberta.",)),
    "xlm-roberta": Family(roberta, ("roberta.",)),
    "distilbert": Family(distilbert, ("distilbert.",)),
}
