"""The LM head of a model: tied to the embedding, a separate matrix, or absent.

As in `transformers`, a stored matrix that differs from the embedding is used even if the config
ties them. A model without a stored matrix has no LM head unless the config ties it, and none if the
config names a class without one (GPT2Model). If it names a class with one that is not tied, the
tensor is missing, and the file is refused.
"""

import re
from typing import Any, NamedTuple

from models.foreign.plan import Keys, PlanRow, weight


class LMHead(NamedTuple):
    """The LM head of a model: fields of its config, rows, and the names that may be ignored."""

    settings: dict[str, Any]
    rows: tuple[PlanRow, ...]
    ignored: tuple[str, ...] = ()


def output(
    keys: Keys,
    tied: bool,
    theirs: str = "lm_head",
    embed: str = "embed_tokens",
    biased: bool = False,
) -> LMHead:
    """The LM head of a single-sequence model; `tied`: the config ties it to the embedding."""
    name = f"{theirs}.weight"
    bias = (PlanRow("unembed.bias", (f"{theirs}.bias",)),) if biased else ()
    settings = {"unembed_bias": biased}
    headless = LMHead({"tie_embeddings": False, "lm_head": False}, ())
    if keys.says_headless() and not keys.stores(name):
        return headless
    if tied and not keys.differs(name, f"{embed}.weight"):
        return LMHead(settings | {"tie_embeddings": True}, bias, (re.escape(name),))
    settings["tie_embeddings"] = False
    if keys.stores(name) or keys.says_head():
        return LMHead(settings, (PlanRow("unembed.weight", (name,)), *bias))
    return headless


def own_output(keys: Keys, tied: bool = True) -> LMHead:
    """The embeddings of a translator's two vocabularies, and the LM head of the target's."""
    source, target = "encoder.embed_tokens", "decoder.embed_tokens"
    head = output(keys, tied, embed=target)
    rows = (weight("encoder.embed", source), weight("decoder.embed", target), *head.rows)
    return head._replace(rows=rows)


def shared_output(keys: Keys, tied: bool = True) -> LMHead:
    """The embeddings and the LM head of a translator, which usually share one matrix."""
    stacks = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    head = "lm_head.weight"
    shared = keys.stored("shared.weight", *stacks)
    ignored = tuple(re.escape(name) for name in ("shared.weight", *stacks, head))
    source, target, out = (
        name if keys.differs(name, shared) else shared for name in (*stacks, head)
    )
    without = not keys.stores(head) and (keys.says_headless() if tied else not keys.says_head())
    if source == target == out and (tied or without):
        settings = {"tie_embeddings": True, "lm_head": not without}
        return LMHead(settings, (PlanRow("encoder.embed.weight", (shared,)),), ignored)
    rows = [PlanRow("encoder.embed.weight", (source,)), PlanRow("decoder.embed.weight", (target,))]
    if not without:
        rows.append(PlanRow("unembed.weight", (out if tied else head,)))
    return LMHead({"tie_embeddings": False, "lm_head": not without}, tuple(rows), ignored)
