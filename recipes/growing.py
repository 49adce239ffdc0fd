"""Making a trained model larger: by layers that initially add nothing, or by tokens."""

from dataclasses import replace
from typing import Any

import torch

from models.tokenizer import Tokenizer
from models.transformer import Model

SILENT = ("w_o.weight", "w_o.bias", "w_down.weight", "w_down.bias")
"""The output parameters of a sublayer: if they are 0, it adds nothing to the residual stream."""


@torch.no_grad()
def grow(small: Model, model: Model) -> None:
    """Initialise `model` so that it computes the same function as `small`, with more layers.

    Block expansion (Wu et al. 2024, LLaMA Pro, arXiv 2401.02415, §3.1): each layer of `small` is
    repeated n times, first unchanged and then with zeros in its output matrices, so that a copy
    adds nothing until it is trained. Raises ValueError if the number of layers is not a multiple,
    if another size or choice differs, or if a norm follows the sublayers, since it would not leave
    a zero output unchanged.
    """
    times, rest = divmod(model.config.n_layers, small.config.n_layers)
    if rest:
        raise ValueError(
            f"n_layers is {model.config.n_layers}: it must be a multiple of the "
            f"{small.config.n_layers} of the model to begin with"
        )
    free: dict[str, Any] = {"n_layers": 1, "dropout": 0.0, "attention_dropout": 0.0}
    if replace(small.config, **free) != replace(model.config, **free):
        raise ValueError("only n_layers and dropout may differ from the initial model")
    if model.config.norm_placement != "pre":
        raise ValueError(
            f"norm_placement is {model.config.norm_placement!r}: a layer can add nothing only "
            "where it is 'pre'"
        )
    found = dict(small.named_parameters())
    for name, parameter in model.named_parameters():
        stack, blocks, rest_of_name = name.partition("blocks.")
        if not blocks:
            parameter.copy_(found[name])
            continue
        index, _, inside = rest_of_name.partition(".")
        layer, copy = divmod(int(index), times)
        if copy and inside.endswith(SILENT):
            parameter.zero_()
        else:
            parameter.copy_(found[f"{stack}blocks.{layer}.{inside}"])


@torch.no_grad()
def add_tokens(small: Model, known: Tokenizer, model: Model, tokenizer: Tokenizer) -> None:
    """Initialise `model` with the parameters of `small`, which has a smaller vocabulary.

    Tokens are matched by their text; the rows of new tokens keep their random values. Raises
    ValueError if a token of `small` is missing, or if more than the vocabulary differs.
    """
    if replace(small.config, vocab_size=model.config.vocab_size) != model.config:
        raise ValueError("only vocab_size may differ from the initial model")
    ids = {tokenizer.piece(token): token for token in range(tokenizer.vocab_size)}
    pieces = [known.piece(token) for token in range(known.vocab_size)]
    missing = [piece for piece in pieces if piece not in ids]
    if missing:
        raise ValueError(f"the new vocabulary lacks {missing[0]!r} of the initial model")
    places = [ids[piece] for piece in pieces]
    for (_, old), (_, new) in zip(small.named_parameters(), model.named_parameters(), strict=True):
        if old.shape == new.shape:
            new.copy_(old)
        else:
            new[places] = old.to(new.dtype)
