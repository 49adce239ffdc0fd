"""Weight tying: the logit as a dot product with the token's own embedding.

With a tied output the logit of word w is the dot product of the last vector h and the word's own
embedding: h · E[w] = |h| |E[w]| cos(h, E[w]). So the blocks must produce a vector that points to
the embedding of the next word, and words with similar embeddings get similar logits.
(The mean of all embeddings adds h · mean to every dot product alike. So embeddings are compared
without it.)
Press & Wolf 2017; Inan et al. 2017.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int

from explorer.analysis.model.parameters import count_config
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.model.choices import ModelChoices
from explorer.exhibits.picking import pick_token
from explorer.exhibits.saying import in_a_row, quoted
from explorer.library import LoadedModel
from explorer.numbers import fixed, number, percent
from explorer.numerics import cosines
from explorer.runs.rerun import require_same_model
from explorer.runs.trace import Trace
from models.attention import capped
from models.foreign.placing import outside, shown

N_WORDS = 8
N_NEAR = 10
N_RANDOM = 2000


@dataclass(frozen=True)
class Logit:
    """One word's logit, without bias or cap, as a product: norm of the last vector, norm of the
    output row, cosine."""

    word: str
    logit: float
    length: float
    cosine: float


@dataclass(frozen=True, eq=False)
class Tying:
    """The output matrix of a model on one text.

    `best` are the words with the highest logits at a position, best first, `h` the norm of the
    last vector there, before the output matrix; `error` is the largest difference between
    h · W_U[w], with the word's `biases` and the cap if the model has them, and the logit.
    `near_rank` is the mean rank of the nearest embeddings of each position's best word among all
    logits there, as a share of the vocabulary from 0, the top: 0.5 by chance. `saved` is how many
    more parameters separate matrices would take (0 if they are separate). `same` is the mean cosine
    of E[w] and W_U[w] over many words, `other` that of E[w] and another word's row.
    """

    tied: bool
    saved: int
    biased: bool
    best: tuple[Logit, ...]
    h: float
    error: float
    near: tuple[str, ...]
    near_rank: float
    same: float
    other: float


@torch.inference_mode()
def tying(loaded: LoadedModel, traced: Trace, at: int) -> Tying:
    """For the logits at position `at`. Raises ValueError for a model without logits, and if the
    Trace is of another model."""
    require_same_model(loaded, traced)
    if not traced.config.lm_head:
        raise ValueError(f"{loaded.name} has no output matrix")
    model = loaded.model
    rows = outside(model.unembed.weight).numpy()
    embedding = outside(model.last_stack.embed.weight).numpy()
    centred, centred_rows = embedding - embedding.mean(0), rows - rows.mean(0)
    final = traced.activations[traced.stacks[-1].hook("resid_final")]
    config = loaded.config
    untied = count_config(replace(config, tie_embeddings=False)).total
    normed = shown(model.last_stack.final_norm)(torch.tensor(final)[None])
    last = shown(model.head)(normed)[0].numpy()
    biases = None if model.unembed.bias is None else outside(model.unembed.bias)
    products = last @ rows.T
    biased = torch.tensor(products) + (0 if biases is None else biases)
    reached = capped(biased, config.logit_cap).numpy()
    plain = biases is None and config.logit_cap is None
    lengths = np.linalg.norm(rows, axis=1)
    h = float(np.linalg.norm(last[at]))
    first = np.argsort(-traced.logits[at], kind="stable")[:N_WORDS]
    near = nearest(centred, int(first[0]))
    random = np.random.default_rng(0).permutation(len(rows))[:N_RANDOM]
    return Tying(
        saved=untied - count_config(config).total,
        biased=biases is not None,
        tied=model.unembed.weight is model.last_stack.embed.weight,
        best=tuple(
            Logit(
                loaded.str_tokens([int(w)])[0],
                float((traced.logits if plain else products)[at, w]),
                float(lengths[w]),
                float(last[at] @ rows[w] / (h * lengths[w])),
            )
            for w in first
        ),
        h=h,
        error=float(np.abs(reached - traced.logits).max()),
        near=tuple(loaded.str_tokens([int(w)])[0] for w in near),
        near_rank=float(np.mean([_rank(traced.logits[t], centred) for t in range(len(last))])),
        same=float(cosines(centred[random], centred_rows[random]).mean()),
        other=float(cosines(centred[random], centred_rows[np.roll(random, 1)]).mean()),
    )


def nearest(
    embedding: Float[np.ndarray, "word d_model"], word: int, n: int = N_NEAR
) -> Int[np.ndarray, " near"]:
    """The `n` words with the highest cosine to this word's embedding, without itself."""
    like = cosines(embedding, embedding[word][None])
    like[word] = -np.inf
    return np.argsort(-like, kind="stable")[:n]


def _rank(
    logits: Float[np.ndarray, " word"], embedding: Float[np.ndarray, "word d_model"]
) -> float:
    """The mean rank of the best word's nearest embeddings among the other words, as a share."""
    best = int(logits.argmax())
    near = nearest(embedding, best)
    above = (logits[None, :] > logits[near][:, None]).sum(1) - 1  # without the best word itself
    return float(above.mean() / (len(logits) - 2))


def compute(loaded: LoadedModel, trace: Trace, at: int) -> Tying | None:
    """The logits at position `at`, taken apart; None for a model without logits."""
    return tying(loaded, trace, at) if trace.config.lm_head else None


def _spot(view: View) -> int:
    """The chosen position, at most the last one."""
    return min(view.choices(ModelChoices).spot, len(view.trace.tgt_tokens) - 1)


def show(result: Tying | None, view: View) -> b.Blocks:
    """The highest logits as products, and what follows for a tied matrix."""
    if result is None:
        yield b.Hint(view.t("swaps.no_logits"))
        return
    yield b.Prose(view.t("tying.lead"))
    tokens = view.trace.tgt_str_tokens
    yield pick_token(view, "model.spot", "tying.spot", tokens, _spot(view), "spot")
    goes_on = [view.t("tying.then_biased")] if result.biased else []
    cap = view.loaded.config.logit_cap
    if cap is not None:
        goes_on.append(view.t("tying.then_capped", cap=f"{cap:g}"))
    names = ("word", "product" if goes_on else "logit", "h", "length", "cosine")
    rows = [
        (escape(e.word), fixed(e.logit), fixed(result.h), fixed(e.length), fixed(e.cosine, 3))
        for e in result.best
    ]
    yield b.Table([view.t(f"tying.{name}") for name in names], rows)
    then = view.t("tying.then", then=view.t("heads.and").join(goes_on)) if goes_on else ""
    yield b.Sentence("tying", then + _reading(view, result))
    lines = [r"\ell_w = h \cdot W_U[w] = \lVert h\rVert\,\lVert W_U[w]\rVert\,\cos(h, W_U[w])"]
    if result.tied:
        lines += ["W_U = E", r"h \cdot (E[w] - \bar{E}) = \ell_w - h \cdot \bar{E}"]
    yield b.Formula(lines, view.t("tying.formula"))
    yield b.Code((view.loaded.model.read, tying), first=True)
    yield b.Numbers(
        lambda: {
            view.t(f"tying.{name}"): [getattr(candidate, name) for candidate in result.best]
            for name in ("word", "logit", "length", "cosine")
        }
    )


def _reading(view: View, result: Tying) -> str:
    words = view.t(
        "tying.reading",
        error=number(result.error),
        word=quoted(view, result.best[0].word),
        near=", ".join(map(escape, result.near)),
        rank=percent(result.near_rank),
    )
    verdict = view.t(
        "tying.tied" if result.tied else "tying.untied",
        saved=f"{result.saved:,}",
        same=fixed(result.same),
        other=fixed(result.other),
    )
    return in_a_row((words, verdict))


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"at": _spot},
    open=lambda view: view.choices(ModelChoices).further == "tying",
)
