"""Norm placement: the size of the residual stream and of its gradient, block by block.

Uses fresh models, built and initialized by the library (Xavier for every matrix, embeddings N(0, 1
/ d_model) times sqrt(d_model)), or a trained one. A shared model is not changed: gradients are
taken with respect to the activations of one pass, not to its weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.passes import seeded
from explorer.runs.rerun import require_same_model, rows_of, written_tokens
from explorer.runs.trace import Trace
from models.config import ModelConfig, NormPlacement
from models.hooks import visiting
from models.rows import Rows
from models.transformer import Model, build_model

PLACEMENTS: tuple[NormPlacement, ...] = get_args(NormPlacement)
SEEDS = (0, 1, 2)
D_MODEL, N_HEADS, D_FF = 64, 4, 256
MOST_LAYERS = 48


@dataclass(frozen=True, eq=False)
class StreamNorms:
    """One model's residual stream, block by block; leading axes may be seeds.

    `stream` is the root mean square before the first block and after each one, [..., layer + 1];
    `added` that of the attention output, [..., layer]; `gradient` the norm of the loss's gradient
    at the points of `stream`. `spread` measures how different the tokens are there: the norm of the
    stream minus the mean of all tokens, as a share of its whole norm, [..., layer + 1]; at 0 all
    tokens have the same vector (rank collapse, Dong et al. 2021). `loss` is the loss itself.
    """

    stream: Float[np.ndarray, "..."]
    added: Float[np.ndarray, "..."]
    gradient: Float[np.ndarray, "..."]
    spread: Float[np.ndarray, "..."]
    loss: Float[np.ndarray, "..."]


class _Keep:
    """A visitor that records tensors in autograd's graph, so that they receive gradients."""

    def __init__(self, names: Sequence[str], first: str, alone: Mapping[str, str]) -> None:
        self._names, self._first, self._alone = {*names, *alone, *alone.values()}, first, alone
        self.tensors: dict[str, Tensor] = {}

    def wants(self, name: str) -> bool:
        return name in self._names or name == self._first

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        if name in self._alone:
            tensor = self.tensors[self._alone[name]]  # f(x) instead of x + f(x)
        if name == self._first:
            # A shared model's weights require no gradient; from here on the stream does.
            tensor = tensor.detach().clone().requires_grad_()
        self.tensors[name] = tensor
        return tensor


def fresh_flow(
    tokens: Sequence[int],
    placement: NormPlacement,
    n_layers: int,
    final_norm: bool,
    seeds: Sequence[int] = SEEDS,
    residual: bool = True,
) -> StreamNorms:
    """Fresh decoder-only models that read `tokens` (any ids) and predict each next one.

    64 dimensions, 4 heads, ReLU, LayerNorm with eps 1e-5, no dropout. Without `residual` (only for
    "pre") every sublayer outputs f(norm(x)) instead of x + f(norm(x)). Raises InputProblem for
    fewer than two tokens, ValueError for an invalid depth or no `residual` with another placement.
    """
    if not residual and placement != "pre":
        raise ValueError(f"without residual: placement is {placement!r}, expected 'pre'")
    if len(tokens) < 2:
        raise InputProblem("one_token")
    if not 1 <= n_layers <= MOST_LAYERS:
        raise ValueError(f"n_layers is {n_layers}: it must be 1 to {MOST_LAYERS}")
    _, ids = np.unique(np.asarray(tokens), return_inverse=True)
    config = ModelConfig(
        family="decoder-only",
        vocab_size=max(4, int(ids.max()) + 1),
        d_model=D_MODEL,
        n_layers=n_layers,
        n_heads=N_HEADS,
        d_ff=D_FF,
        n_ctx=max(8, len(tokens)),
        norm_placement=placement,
        final_norm=final_norm,
        dropout=0.0,
    )
    row = torch.from_numpy(ids.astype(np.int64))[None]
    flows = []
    for seed in seeds:
        with seeded(seed):
            model = build_model(config).requires_grad_(False)
        flows.append(_flow(model, partial(_predictions, model, row), row[0, 1:], residual))
    return StreamNorms(
        *(np.stack([getattr(flow, name) for flow in flows]) for name in StreamNorms.__annotations__)
    )


def _predictions(model: Model, row: Int[Tensor, "1 pos"]) -> Tensor:
    """Logits of each next token of the sequence, [pos - 1, vocab]."""
    return model.read(Rows(row))[0, :-1]


def trained_flow(loaded: LoadedModel, traced: Trace) -> StreamNorms:
    """The flow of a trained model that reads a Trace's rows: in its encoder, or its only stack.

    The loss is over the generated tokens. Raises ValueError if there are none, and for another
    model's Trace.
    """
    require_same_model(loaded, traced)
    written = torch.tensor(written_tokens(traced), dtype=torch.long)
    if not len(written):
        raise ValueError("no token was generated, so there is no loss")

    def read() -> Tensor:
        return loaded.model.read(rows_of(traced))[0, : len(written)]

    return _flow(loaded.model, read, written)


def _flow(
    model: Model, read: Callable[[], Tensor], targets: Int[Tensor, " pos"], residual: bool = True
) -> StreamNorms:
    """One pass and its gradients at every block of the first stack."""
    stack = model.stacks()[0]
    layers = range(stack.n_layers)
    places = [stack.block_hook(0, "resid_pre")]
    places += [stack.block_hook(layer, "resid_post") for layer in layers]
    added = [stack.block_hook(layer, "attn_out") for layer in layers]
    branches = {"resid_mid": "attn_out", "resid_post": "ffn_out"}
    alone = {
        stack.block_hook(layer, total): stack.block_hook(layer, branch)
        for layer in layers
        for total, branch in branches.items()
        if not residual
    }
    keep = _Keep([*places, *added], places[0], alone)
    with torch.enable_grad(), visiting(keep):
        loss = nn.functional.cross_entropy(read(), targets)
        gradients = torch.autograd.grad(loss, [keep.tensors[name] for name in places])
    return StreamNorms(
        stream=np.array([_rms(keep.tensors[name]) for name in places]),
        added=np.array([_rms(keep.tensors[name]) for name in added]),
        gradient=np.array([float(gradient.norm()) for gradient in gradients]),
        spread=np.array([_spread(keep.tensors[name]) for name in places]),
        loss=np.array(float(loss.detach())),
    )


def _rms(x: Tensor) -> float:
    return float(x.detach().double().pow(2).mean().sqrt())


def _spread(x: Float[Tensor, "1 pos d_model"]) -> float:
    rows = x.detach().double()[0]
    return float((rows - rows.mean(0)).norm() / rows.norm())
