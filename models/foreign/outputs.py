"""Where the output of a model comes from: the embedding, a matrix of its own, or nowhere.

A stored matrix that differs from the one it usually copies is used, whatever the config says, as in
`transformers`. Without a matrix a model has no output, unless its config names a class with one:
then the tensor is missing, and the file is refused.
"""

import re
from typing import Any, NamedTuple

from models.foreign.plan import Keys, Row


class Output(NamedTuple):
    """The LM head of a model: fields of its config, rows, and the names that may be ignored."""

    settings: dict[str, Any]
    rows: tuple[Row, ...]
    ignored: tuple[str, ...] = ()


def output(
    keys: Keys,
    tied: bool,
    theirs: str = "lm_head",
    embed: str = "embed_tokens",
    biased: bool = False,
) -> Output:
    """The output of a model of one text; `tied`: the config says that it is the embedding."""
    name = f"{theirs}.weight"
    bias = (Row("unembed.bias", (f"{theirs}.bias",)),) if biased else ()
    settings = {"unembed_bias": biased}
    if tied and not keys.differs(name, f"{embed}.weight"):
        return Output(settings | {"tie_embeddings": True}, bias, (re.escape(name),))
    settings["tie_embeddings"] = False
    if keys.stores(name) or keys.says_head():
        return Output(settings, (Row("unembed.weight", (name,)), *bias))
    return Output({"tie_embeddings": False, "lm_head": False}, ())


def shared_output(keys: Keys, tied: bool = True) -> Output:
    """The embeddings and the output of a translator, usually all one matrix."""
    stacks = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    head = "lm_head.weight"
    shared = keys.stored("shared.weight", *stacks)
    ignored = tuple(re.escape(name) for name in ("shared.weight", *stacks, head))
    source, target, out = (
        name if keys.differs(name, shared) else shared for name in (*stacks, head)
    )
    without = not tied and not keys.stores(head) and not keys.says_head()
    if source == target == out and (tied or without):
        settings = {"tie_embeddings": True, "lm_head": not without}
        return Output(settings, (Row("encoder.embed.weight", (shared,)),), ignored)
    rows = [Row("encoder.embed.weight", (source,)), Row("decoder.embed.weight", (target,))]
    if not without:
        rows.append(Row("unembed.weight", (out if tied else head,)))
    return Output({"tie_embeddings": False, "lm_head": not without}, tuple(rows), ignored)
