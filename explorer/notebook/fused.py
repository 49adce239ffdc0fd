"""torch modules that may take a fused path: detect them and recover their attention."""

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
"""Parts of the names of fused operators, whose pattern is hidden."""

_DECIDING = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)


@dataclass(eq=False)
class Running:
    """A module that is running. `first` is the number of calls recorded before it, `was_on` whether
    the capture was active in its caller."""

    module: nn.Module
    name: str
    names: Mapping[int, str]
    first: int
    was_on: bool
    dark: bool  # capture is off, since it may take a fused path
    args: Any
    hides: bool = False  # multiplied weights that are not a pattern
    has_parts: bool = False  # another module ran inside it


def may_fuse(module: nn.Module, watch: TorchFunctionMode) -> bool:
    """Whether a module may take a fused path if no mode but `watch` is active.

    A module in training mode, or whose parameters need gradients, always takes the plain path.
    """
    kind = next((member for member in _DECIDING if isinstance(module, member)), None)
    if kind is None or type(module).forward is not kind.forward or "forward" in vars(module):
        return False
    if any(mode is not watch for mode in active_modes()):
        return False
    if module.training and kind is not nn.TransformerEncoder:
        return False
    needs = torch.is_grad_enabled() and any(member.requires_grad for member in module.parameters())
    return not needs


def layer_again(
    call: Running, outer: Running | None, args: Any, kwargs: Any, output: Tensor
) -> Iterator[Callable[[], tuple[Tensor, Tensor]]]:
    """Candidate reruns of an `nn.TransformerEncoderLayer` on its plain path. Each returns its own
    output and that of the fused path, [batch, pos, d_model], 0 at padding that was skipped.

    The fused path ignores the hint `is_causal` and treats every nonzero number in the mask as
    blocked, so an additive mask is also tried as a Bool mask. A nested tensor, which
    `nn.TransformerEncoder` makes of a padded batch, is padded again.
    """
    layer: Any = call.module
    arguments = dict(signature(layer.forward).bind(*args, **kwargs).arguments) | {
        "is_causal": False
    }
    src, real = arguments["src"], None
    if src.is_nested:
        lengths = torch.tensor([len(tensor) for tensor in src.unbind()], device=output.device)
        width = int(lengths.max())
        if outer is not None and isinstance(outer.module, nn.TransformerEncoder) and outer.args:
            width = max(width, outer.args[0].shape[1])
        size = (len(lengths), width, layer.self_attn.embed_dim)
        src, output = (tensor.to_padded_tensor(0.0, size) for tensor in (src, output))
        real = torch.arange(width, device=output.device) < lengths[:, None]
        arguments |= {"src": src, "src_key_padding_mask": ~real}

    def run(changed: dict[str, Any]) -> tuple[Tensor, Tensor]:
        result: Tensor = layer.forward(**(arguments | changed))
        return result if real is None else result.masked_fill(~real[..., None], 0.0), output

    yield lambda: run({})
    mask = arguments.get("src_mask")
    if mask is not None and mask.is_floating_point():
        yield lambda: run({"src_mask": mask.bool()})


def agreeing(trial: Captured, made: tuple[Tensor, Tensor]) -> Attention | None:
    """The attention of a rerun that reproduced the original output; None if it did not.

    A query without visible keys is NaN on the fused path only.
    """
    output, expected = made
    if len(trial) != 1:
        return None
    (seen,) = trial
    lost = expected.isnan().any(-1) & ~output.isnan().any(-1)  # [batch, query]
    if bool(lost.any()):
        empty = None if seen.mask is None else ~seen.mask.any(-1).all(1)
        if empty is None or bool((lost & ~empty).any()):
            return None
        output = output.masked_fill(lost[..., None], math.nan)
        seen = replace(seen, pattern=seen.pattern.masked_fill(lost[:, None, :, None], math.nan))
    return seen if same(output, expected, largest(expected)) else None
