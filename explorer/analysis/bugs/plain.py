"""Bugs of plain Python and dtypes: unpacking, lists of one module, a tiny epsilon."""

import copy
import math
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from explorer.analysis.bugs.card import Demonstration, Figure, Pitfall, Tried, fixed_scores
from explorer.runs.trace import Trace
from explorer.seeding import seeded

WIDTH = 64
"""Maximum number of embedding features used of the user's model."""
STEPS = 30
HALVES = (torch.float32, torch.bfloat16, torch.float16)
Norm = Callable[[Tensor], Tensor]
Projections = Callable[[int], Sequence[nn.Linear]]


def batch_unpacked(batch: Tensor) -> tuple[Tensor, Tensor]:
    """A tensor unpacks along its first axis: a batch of two becomes its two rows."""
    src, tgt = batch
    return src, tgt


def batch_by_name(batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """A dictionary cannot be unpacked by accident."""
    return batch["src"], batch["tgt"]


def one_module_three_times(d_model: int) -> Sequence[nn.Linear]:
    """A list times 3 holds the same object three times."""
    return [nn.Linear(d_model, d_model, bias=False)] * 3


def one_module_copied(d_model: int) -> Sequence[nn.Linear]:
    """Copies are separate modules, but start with the same weights."""
    linear = nn.Linear(d_model, d_model, bias=False)
    return [copy.deepcopy(linear) for _ in range(3)]


def three_modules(d_model: int) -> Sequence[nn.Linear]:
    """Each module is created, and initialized, separately."""
    return [nn.Linear(d_model, d_model, bias=False) for _ in range(3)]


def norm_with_a_tiny_epsilon(x: Tensor) -> Tensor:
    """1e-12 is lost to rounding, and in float16 it is 0."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(x.var(-1, keepdim=True, correction=0) + 1e-12)


def norm_in_float32(x: Tensor) -> Tensor:
    """Statistics in float32, an epsilon above its rounding error, and back to the dtype of x."""
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    return (centred / torch.sqrt(wide.var(-1, keepdim=True, correction=0) + 1e-5)).to(x.dtype)


def error_of(run: Callable[[], object]) -> str:
    """The error that a call raises, with its type; "" if it succeeds."""
    try:
        run()
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


def _unpacked(traced: Trace | None = None) -> Demonstration:
    """The bug that a loader's tensor is unpacked as `src, tgt`: batch sizes 1 to 4, then training.

    The two rows are the user's sentence and its words in reverse order, or a fixed row.
    """
    own = traced.tgt_tokens[: int(traced.tgt_valid.sum())] if traced else ()
    words = own if len(set(own)) > 1 else (5, 2, 7, 3, 9)  # one word leaves nothing to learn
    row = torch.unique(torch.tensor(words), return_inverse=True)[1]
    rows = torch.stack([row, row.flip(0)])
    pairs = {"src": rows, "tgt": rows}  # the task is copying
    tried = []
    for n in range(1, 5):
        batch = row.expand(n, -1)
        tried.append(
            Tried(
                str(n), error_of(partial(batch_unpacked, batch)), error_of(partial(_by_name, batch))
            )
        )
    bad, good = losses(*batch_unpacked(rows)), losses(*batch_by_name(pairs))
    return Demonstration(
        tuple(
            Figure("step_loss", bad[step - 1], good[step - 1], of=str(step)) for step in (1, STEPS)
        ),
        np.array([bad]),
        np.array([good]),
        own=words == own,
        fresh=True,
        columns=tuple(str(step) for step in range(1, STEPS + 1)),
        tried=tuple(tried),
    )


def _by_name(batch: Tensor) -> object:
    """Call the correct code with a tensor instead of a dictionary, which it rejects."""
    return batch_by_name(batch)  # type: ignore[arg-type]


def losses(src: Int[Tensor, "*batch pos"], tgt: Int[Tensor, "*batch pos"]) -> list[float]:
    """Cross-entropy of a small network, an embedding and an output matrix, at each of `STEPS`
    steps.

    Rows without a batch axis are accepted too, as in torch's modules.
    """
    vocab = int(max(src.max(), tgt.max())) + 1
    with seeded(0):
        net = nn.Sequential(nn.Embedding(vocab, 16), nn.Linear(16, vocab))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    found = []
    for _ in range(STEPS):
        loss = nn.functional.cross_entropy(net(src).flatten(0, -2), tgt.flatten())
        optimizer.zero_grad()
        torch.autograd.backward([loss])
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def _embeddings(traced: Trace | None) -> Float[Tensor, "pos d"]:
    """The input of the user's first block, at most WIDTH features, normalized; or N(0, 1)."""
    if traced is None:
        return fixed_scores(1, 1, 6, 16)[0, 0]
    stack = traced.stack("tgt")
    x = traced.activations[stack.hook("embed")] + traced.activations.get(stack.hook("pos_embed"), 0)
    x = torch.tensor(x[traced.tgt_valid], dtype=torch.float32)[:, :WIDTH]
    return nn.functional.layer_norm(x, x.shape[1:])


def _projections(build: Projections) -> Callable[[Trace | None], Demonstration]:
    def demonstrate(traced: Trace | None = None) -> Demonstration:
        """The scores of fresh projections, and what they learn on a task: attend to the left."""
        x = _embeddings(traced)
        found = [_measured(each, x) for each in (build, three_modules)]
        (bad, bad_scores), (good, good_scores) = found
        real = np.asarray(traced.tgt_str_tokens)[traced.tgt_valid] if traced else "abcdef"
        return Demonstration(
            tuple(Figure(name, bad[name], good[name]) for name in bad),
            wrong=(bad_scores - bad_scores.T).abs().amax(0)[None].numpy(),
            right=(good_scores - good_scores.T).abs().amax(0)[None].numpy(),
            own=traced is not None,
            fresh=True,
            columns=tuple(map(str, real)),
        )

    return demonstrate


def _measured(build: Projections, x: Tensor) -> tuple[dict[str, float], Tensor]:
    with seeded(0), torch.inference_mode():
        w_q, w_k, w_v = build(x.shape[1])
        scores = w_q(x) @ w_k(x).T / math.sqrt(x.shape[1])
    sizes = {id(each.weight): each.weight.numel() for each in (w_q, w_k, w_v)}
    loss, asymmetry = learned(build)
    return {
        "parameters": float(sum(sizes.values())),
        "asymmetry": float((scores - scores.T).abs().max()),
        "asymmetry_learned": asymmetry,
        "loss_learned": loss,
    }, scores


@cache
def learned(build: Projections, steps: int = 150) -> tuple[float, float]:
    """Loss and largest |s - s^T| after training one head to predict each position's left neighbour.

    8 positions, 8 words in random order, no mask; the first position has no left neighbour and is
    excluded.
    """
    n, d = 8, 16
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(2, n, d, generator=generator)
    with seeded(0):
        w_q, w_k, w_v = build(d)
        out = nn.Linear(d, n)
    modules = nn.ModuleList([w_q, w_k, w_v, out])
    optimizer = torch.optim.Adam(modules.parameters(), lr=0.01)
    loss = scores = torch.zeros(())
    for _ in range(steps):
        words = torch.rand(16, n, generator=generator).argsort(-1)
        x = table[0][words] + table[1]
        scores = w_q(x) @ w_k(x).transpose(-2, -1) / math.sqrt(d)
        logits = out(scores.softmax(-1) @ w_v(x))
        loss = nn.functional.cross_entropy(logits[:, 1:].flatten(0, 1), words[:, :-1].flatten())
        optimizer.zero_grad()
        torch.autograd.backward([loss])
        optimizer.step()
    scores = scores.detach()
    return float(loss.detach()), float((scores - scores.transpose(-2, -1)).abs().max())


def _tiny_epsilon(traced: Trace | None = None) -> Demonstration:
    """A row of 0.1 in three dtypes; and a PAD row of zeros after the user's words, in float16."""
    figures, tried = [], []
    for dtype in HALVES:
        row, name = torch.full((1, 512), 0.1, dtype=dtype), str(dtype).removeprefix("torch.")
        bad, good = (
            float(norm(row).float().abs().max())
            for norm in (norm_with_a_tiny_epsilon, norm_in_float32)
        )
        figures.append(Figure("constant_row", bad, good, of=name))
        errors = (
            error_of(partial(norm, row)) for norm in (norm_with_a_tiny_epsilon, norm_in_float32)
        )
        tried.append(Tried(name, next(errors), next(errors)))
    words = _embeddings(traced)
    padded = torch.cat([words, torch.zeros(1, words.shape[1])]).half()
    bad, good = nan_rows(norm_with_a_tiny_epsilon, padded), nan_rows(norm_in_float32, padded)
    figures.append(Figure("pad_nan_rows", bad, good, of=str(len(padded))))
    return Demonstration(tuple(figures), own=traced is not None, fresh=True, tried=tuple(tried))


def nan_rows(norm: Norm, x: Float[Tensor, "pos d"]) -> float:
    """Rows with a NaN after a norm and unmasked attention without projections, in float32."""
    y = norm(x).float()
    z = (y @ y.T / math.sqrt(y.shape[1])).softmax(-1) @ y
    return float(z.isnan().any(-1).sum())


PLAIN_TRAINING = (
    Pitfall(
        id="unpacked_batch",
        group="training",
        wrong=batch_unpacked,
        right=batch_by_name,
        demonstrate=_unpacked,
    ),
)
PLAIN_MODEL = (
    Pitfall(
        id="one_projection",
        group="model",
        wrong=one_module_three_times,
        right=three_modules,
        demonstrate=_projections(one_module_three_times),
    ),
    Pitfall(
        id="copied_projections",
        group="model",
        wrong=one_module_copied,
        right=three_modules,
        demonstrate=_projections(one_module_copied),
    ),
    Pitfall(
        id="tiny_epsilon",
        group="model",
        wrong=norm_with_a_tiny_epsilon,
        right=norm_in_float32,
        demonstrate=_tiny_epsilon,
    ),
)
