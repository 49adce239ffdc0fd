"""Claims about positions: what sinusoids provide, where they fail, and models without positions."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from explorer.analysis.cases import training
from explorer.analysis.cases.case import Result, ResultRow, curve_of, judged
from explorer.analysis.positions import encoding
from explorer.analysis.score.steps import module_of
from explorer.library import LoadedModel, open_model
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from models.decoding import decode
from models.hooks import StackSite
from models.masks import causal_mask
from models.rows import as_tensor
from models.strategies import Greedy

FAR = 100
STEPS, LONGER = 200, 800
"""Steps of a training run, and of the longer one that shows whether accuracy still grows."""
TOY = "reverse"


def offset_only(
    loaded: LoadedModel, traced: Trace, make: Callable[[int, int], np.ndarray] = encoding.table
) -> Result:
    """Dot products of position vectors by distance: for the sinusoids and for the user's model.

    `make(n_positions, width)` returns the table that the claim is about, [pos, d_model].
    """
    dots = encoding.dot_by_distance(make(FAR + 1, 512))
    rows = [ResultRow("at_distance", (dots.mean[n],), of=str(n)) for n in (0, 1, 10, FAR)]
    rows.append(ResultRow("table_spread", (_spread(dots),)))
    rises = np.flatnonzero(np.diff(dots.mean) > 0)
    rises_at = float(rises[0]) + 1 if len(rises) else math.nan
    rows.append(ResultRow("first_rise", (rises_at,)))
    holds = [_spread(dots) < 1e-3 * dots.mean[0]]
    added = encoding.model_table(loaded, FAR + 1, traced.sites[0].query_stream)
    if added is not None:
        own = encoding.dot_by_distance(added)
        holds.append(_spread(own) < 1e-3 * own.mean[0])
        rows.append(ResultRow("own_table_spread", (_spread(own),)))
        rows.append(ResultRow("projected_spread", (_projected(loaded, traced, added),)))
    points = [ResultRow("at_distance", (value,), of=str(n)) for n, value in enumerate(dots.mean)]
    curve = curve_of(points, ("dot",), "distance", "dot")
    return Result(judged(all(holds), false=not holds[0]), ("dot",), rows, curve)


def _spread(distance: encoding.DotByDistance) -> float:
    """The largest difference between dot products at one distance."""
    return float((distance.highest - distance.lowest).max())


def _projected(loaded: LoadedModel, traced: Trace, added: np.ndarray) -> float:
    """The largest difference of (W_q p_i) . (W_k p_j) of the first head at one signed distance."""
    module = module_of(loaded, traced.sites[0])
    with torch.inference_mode():
        p = torch.tensor(added)
        q, k = (linear(p)[:, : module.d_head].double() for linear in (module.w_q, module.w_k))
    products = (q @ k.T).numpy()
    last = len(products) - 1  # learned positions may end before FAR
    return float(max(np.ptp(np.diagonal(products, n)) for n in range(-last, last + 1)))


def frequencies(turns_of: Callable[[int], np.ndarray] = encoding.wavelengths) -> Result:
    """The wavelength of every dimension at a width of 512."""
    turns = turns_of(512)
    rows = tuple(
        ResultRow("dimension", (turns[dim],), of=str(dim)) for dim in (0, 64, 128, 256, 384, 510)
    )
    every = [ResultRow("dimension", (turns[dim],), of=str(dim)) for dim in range(0, 512, 2)]
    curve = curve_of(every, ("wavelength",), "dimension_axis", "wavelength", log_y=True)
    verdict = judged(not (np.diff(turns) < 0).any(), false=turns[-1] <= turns[0])
    return Result(verdict, ("wavelength",), rows, curve)


def _turned_round(toy: LoadedModel, length: int, seed: int, n_rows: int = 40) -> float:
    """The share of random rows of letters that the toy reverses without an error."""
    generator = np.random.default_rng((length, seed))
    model, encode = toy.model, toy.tokenizer.encode
    texts = [generator.choice(list("abcdefghijklmnopqrst"), length) for _ in range(n_rows)]
    src = as_tensor([model.with_marks("src", encode(" ".join(text))) for text in texts])
    *_, step = decode(model, src, Greedy(), max_new_tokens=length + 2)
    right = 0
    for text, done in zip(texts, step.ended, strict=True):
        wanted = [*encode(" ".join(text[::-1])), model.marks.end]
        right += bool(done) and list(done[0].tokens) == wanted
    return right / n_rows


def extrapolation(right: Callable[[int, int], float] | None = None) -> Steps[Result]:
    """The toy that reverses rows of 2 to 10 letters, tested on rows of 2 to 16.

    `right(length, seed)` returns the exact match rate on the rows that the seed draws; None: the
    toy's. Raises InputProblem.
    """
    right = right or partial(_turned_round, open_model(TOY))
    lengths = tuple(range(2, 17, 2))
    rows, tries = [], []
    for step, length in enumerate(lengths):
        tries.append([right(length, seed) for seed in training.SEEDS])
        rows.append(ResultRow("letters", training.mean_and_range(tries[-1]), of=str(length)))
        yield step + 1, len(lengths)
    trained, beyond = tries[4], tries[5:]
    verdict = judged(
        all(min(rates) > 0.9 * max(trained) for rates in beyond),
        false=all(max(rates) < 0.5 * min(trained) for rates in beyond),
    )
    curve = curve_of(rows, ("right",), "length", "right")
    return Result(verdict, ("right", "sets_range"), rows, curve)


def causal_order(
    loaded: LoadedModel, traced: Trace, learn: training.Learn = training.train
) -> Steps[Result]:
    """Shuffled words through the user's first layer; small decoders with positions and without.

    Whether order reaches the layer's outputs at all is shown by how far they are from being
    permuted in the same way as the words.
    """
    rows = [ResultRow(name, (value, math.nan)) for name, value in _orders(loaded, traced).items()]
    arms = {
        name: training.TaskTraining(
            training.symbol_config(family=family, positions=positions, n_layers=2, **training.PRE),
            training.two_back,
            steps,
            rate=5e-3,
        )
        for name, family, positions, steps in (
            ("neither", "encoder-only", "none", STEPS),
            ("mask_only", "decoder-only", "none", STEPS),
            ("both_given", "decoder-only", "sinusoidal", STEPS),
            ("mask_longer", "decoder-only", "none", LONGER),
        )
    }
    results = yield from training.several(arms, learn)
    rows += [
        ResultRow(name, training.mean_and_range(result.right)) for name, result in results.items()
    ]
    neither, mask, both, longer = (result.right for result in results.values())
    helped, grows = min(both) > max(neither), training.above(longer, mask, 0.05)
    verdict = judged(
        helped and min(mask) > max(both) - 0.1,
        false=helped and max(mask) < (min(neither) + min(both)) / 2 and grows is False,
    )
    between = helped and max(neither) < min(mask) and max(mask) < min(both)
    why = training.of_seeds(verdict, [grows if between else None])
    numbers = {"steps": STEPS, "more": LONGER}
    return Result(verdict, ("value", "range"), rows, why=why, numbers=numbers)


def _orders(loaded: LoadedModel, traced: Trace) -> dict[str, float]:
    """The largest difference between permuting a first layer's outputs and permuting its words."""
    stack = traced.stack("tgt")
    words = torch.tensor(traced.activations[stack.hook("embed")])[None]
    attention = module_of(loaded, traced.sites_of(stack.role)[0])
    order = torch.arange(words.shape[1]).flip(0)
    causal = causal_mask(words.shape[1])
    differences = {}
    with torch.inference_mode():
        for name, x, mask in (
            ("all_seen", words, None),
            ("causal_seen", words, causal),
            ("with_positions", _with_positions(traced, stack, words), None),
        ):
            if x is not None:
                plain = attention(x, mask=mask)
                moved = attention(_shuffled(x, words, order), mask=mask)
                differences[name] = float((plain[:, order] - moved).abs().max())
    return differences


def _with_positions(traced: Trace, stack: StackSite, words: Tensor) -> Tensor | None:
    added = traced.activations.get(stack.hook("pos_embed"))
    return None if added is None else words + torch.tensor(added)


def _shuffled(x: Tensor, words: Tensor, order: Tensor) -> Tensor:
    """The words in another order; the added positions stay in place."""
    return words[:, order] + (x - words)
