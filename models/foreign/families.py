"""Every family of models that can be opened, by the `model_type` of its config.json."""

from collections.abc import Callable
from dataclasses import dataclass

from models.foreign.alibi import bloom, mpt
from models.foreign.bert import bert, distilbert, roberta
from models.foreign.gemma import gemma, gemma2, gemma3, gemma3_with_pictures
from models.foreign.gpt2 import gpt, gpt2, gpt_neo, gptj
from models.foreign.llama import llama, mistral, qwen2, qwen3
from models.foreign.neox import neox
from models.foreign.opt import opt
from models.foreign.plan import Keys, Plan
from models.foreign.t5 import mt5, t5
from models.foreign.translators import bart, m2m, marian, mbart, pegasus
from models.foreign.variants import cohere, granite, olmo, phi, phi3, stablelm, starcoder2


@dataclass(frozen=True)
class Family:
    """How a config is read, and the prefixes that stored names may have: who saved decides."""

    plan: Callable[[Keys], Plan]
    prefixes: tuple[str, ...] = ("model.",)


FAMILIES: dict[str, Family] = {
    "gpt2": Family(gpt2, ("transformer.",)),
    "openai-gpt": Family(gpt, ("transformer.",)),
    "gpt_neo": Family(gpt_neo, ("transformer.",)),
    "gptj": Family(gptj, ("transformer.",)),
    "bloom": Family(bloom, ("transformer.",)),
    "mpt": Family(mpt, ("transformer.",)),
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
    "phi3": Family(phi3),
    "phi": Family(phi),
    "starcoder2": Family(starcoder2),
    "granite": Family(granite),
    "stablelm": Family(stablelm),
    "olmo": Family(olmo),
    "cohere": Family(cohere),
    "gpt_neox": Family(neox, ("gpt_neox.",)),
    "marian": Family(marian),
    "bart": Family(bart),
    "mbart": Family(mbart),
    "m2m_100": Family(m2m),
    "pegasus": Family(pegasus),
    "opt": Family(opt, ("model.decoder.", "decoder.")),
    "t5": Family(t5, ()),
    "mt5": Family(mt5, ()),
    "bert": Family(bert, ("bert.",)),
    "roberta": Family(roberta, ("roberta.",)),
    "xlm-roberta": Family(roberta, ("roberta.",)),
    "camembert": Family(roberta, ("roberta.",)),
    "distilbert": Family(distilbert, ("distilbert.",)),
}
