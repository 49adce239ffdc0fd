"""The modules of torch that choose a fused path: which they are, and how to see what it did."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from explorer.notebook.captured import Attention, Captured
from explorer.notebook.kernels import active_modes, largest, same

FUSED = ("attention", "attn", "_transformer_encoder_layer_fwd")
"""In the names of operators that hide a pattern."""

_DECIDING = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)


@dataclass(eq=False)
class Running:
    """A module that is running. `first` is the number of calls seen before it, `was_on` whether
    the capture watched its caller.
    """

    module: nn.Module
    name: str
    names: Mapping[int, str]
    first: int
    was_on: bool
    dark: bool  # unwatched, since it may choose a fused path
    args: Any
    hides: bool = False  # multiplied weights that are no pattern
    has_parts: bool = False  # another module ran inside it


def may_fuse(module: nn.Module, watch: TorchFunctionMode) -> bool:
    """Whether a module may take a fused path if no mode but `watch` is active.

    One that is trained, or whose parameters need gradients, takes the plain one in any case.
    """
    kind = next((each for each in _DECIDING if isinstance(module, each)), None)
    if kind is None or type(module).forward is not kind.forward or "forward" in vars(module):
        return False
    if any(mode is not watch for mode in active_modes()):
        return False
    if module.training and kind is not nn.TransformerEncoder:
        return False
    needs = torch.is_grad_enabled() and any(each.requires_grad for each in module.parameters())
    return not needs


def layer_again(
    call: Running, outer: Running | None, args: Any, kwargs: Any, output: Tensor
) -> Iterator[Callable[[], tuple[Tensor, Tensor]]]:
    """Runs of an `nn.TransformerEncoderLayer` by its plain path, to be watched; each returns what
    it gave and what the fused path gave, [batch, pos, d_model], 0 at padding that it left out.

    The fused path reads the mask and not the hint `is_causal`, and every number in the mask but 0
    as blocked; so a mask that adds numbers is tried that way too. A nested tensor, which
    `nn.TransformerEncoder` makes of a padded batch, is padded again.
    """
    layer: Any = call.module
    given = dict(signature(layer.forward).bind(*args, **kwargs).arguments) | {"is_causal": False}
    src, real = given["src"], None
    if src.is_nested:
        lengths = torch.tensor([len(each) for each in src.unbind()], device=output.device)
        width = int(lengths.max())
        if outer is not None and isinstance(outer.module, nn.TransformerEncoder) and outer.args:
            width = max(width, outer.args[0].shape[1])
        size = (len(lengths), width, layer.self_attn.embed_dim)
        src, output = (each.to_padded_tensor(0.0, size) for each in (src, output))
        real = torch.arange(width, device=output.device) < lengths[:, None]
        given |= {"src": src, "src_key_padding_mask": ~real}

    def run(changed: dict[str, Any]) -> tuple[Tensor, Tensor]:
        found: Tensor = layer.forward(**(given | changed))
        return found if real is None else found.masked_fill(~real[..., None], 0.0), output

    yield lambda: run({})
    mask = given.get("src_mask")
    if mask is not None and mask.is_floating_point():
        yield lambda: run({"src_mask": mask.bool()})


def agreeing(trial: Captured, made: tuple[Tensor, Tensor]) -> Attention | None:
    """The attention of a run that gave what ran; None where it gave something else.

    A row that may attend to nothing is NaN on the fused path alone.
    """
    found, expected = made
    if len(trial) != 1:
        return None
    (seen,) = trial
    lost = expected.isnan().any(-1) & ~found.isnan().any(-1)  # [batch, query]
    if bool(lost.any()):
        empty = None if seen.mask is None else ~seen.mask.any(-1).all(1)
        if empty is None or bool((lost & ~empty).any()):
            return None
        found = found.masked_fill(lost[..., None], math.nan)
        seen = replace(seen, pattern=seen.pattern.masked_fill(lost[:, None, :, None], math.nan))
    return seen if same(found, expected, largest(expected)) else None
