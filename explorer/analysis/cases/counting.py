"""Claims about sizes: counted from the real modules, without allocating weights."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn

from explorer.analysis.cases.case import Result, ResultRow, judged, matching
from explorer.analysis.cases.training import symbol_config
from explorer.analysis.model.parameters import llama, numbers_of, on_paper
from explorer.library import LoadedModel
from explorer.numerics import cosines
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from models.attention import Attention, capped
from models.blocks import Block, DecoderBlock
from models.config import ModelConfig
from models.feedforward import FeedForward
from models.foreign.placing import outside, shown
from models.hooks import Record, StackSite, name_hook_points, visiting
from models.transformer import build_model

COLUMNS = ("counted", "said")

LONE = StackSite("", "encoder", "src", n_layers=1)
"""A stack of one block, not part of a model: it names the block's hook points."""
Count = Callable[[nn.Module], int]


def _counted(rows: Sequence[ResultRow], *why: str, bars: str = "counted") -> Result:
    """Whether the counted numbers equal the claimed ones."""
    same = [row.values[0] == row.values[1] for row in rows]
    return matching(same, COLUMNS, rows, *why, bars=bars)


def mha_count(loaded: LoadedModel, count: Count = numbers_of) -> Result:
    """Attention of width 64 with 1 to 16 heads, biases, shared keys; and the user's model."""
    sized = partial(symbol_config, d_model=64, bias=False)
    rows = []
    for n_heads in (1, 4, 16):
        module = on_paper(partial(Attention, sized(n_heads=n_heads)))
        rows.append(ResultRow("heads", (count(module), 4 * 64**2), of=str(n_heads)))
    biased = on_paper(partial(Attention, sized(bias=True)))
    rows.append(ResultRow("with_biases", (count(biased), 4 * 64**2 + 4 * 64)))
    shared = on_paper(partial(Attention, sized(n_heads=16, n_kv_heads=4)))
    rows.append(ResultRow("shared_keys", (count(shared), 4 * 64**2)))
    config = loaded.config
    own = count(loaded.model.get_submodule(loaded.sites[0].name))
    claim = 4 * config.d_model**2 + (4 * config.d_model if config.bias else 0)
    rows.append(ResultRow("own_attention", (own, claim)))
    return _counted(rows, "why")


def ffn_table(count: Count = numbers_of) -> Result:
    """Feed-forward networks of width 4096, counted without biases, and one with them."""
    cases: tuple[tuple[str, str, int, bool, int], ...] = (
        ("relu_11008", "relu", 11_008, False, 90_177_536),
        ("swiglu_11008", "swiglu", 11_008, False, 135_266_304),
        ("relu_16384", "relu", 16_384, False, 134_217_728),
        ("relu_biases", "relu", 11_008, True, 90_177_536 + 15_104),
    )
    rows = [
        ResultRow(name, (count(on_paper(partial(FeedForward, 4096, d_ff, kind, bias=bias))), claim))
        for name, kind, d_ff, bias, claim in cases
    ]
    return _counted(rows, "why")


PUBLISHED = 6_738_415_616
"""The published number of parameters of Llama 7B."""


def _llama(tied: bool) -> int:
    """The number of parameters of Llama 7B, with a tied or untied unembedding."""
    return numbers_of(on_paper(lambda: build_model(llama(tied=tied))))


def tying(loaded: LoadedModel, count: Callable[[bool], int] = _llama) -> Steps[Result]:
    """Llama 7B with and without a tied unembedding, whose parameters `count(tied)` returns; and
    the user's model likewise."""
    untied = count(False)
    yield 1, 2
    tied = count(True)
    saved = 131_072_000
    rows = [
        ResultRow("llama_saved", (untied - tied, saved)),
        ResultRow("llama_untied", (untied, PUBLISHED)),
        ResultRow("llama_tied", (tied, PUBLISHED)),
    ]
    config = loaded.config
    if config.lm_head:
        both = [
            numbers_of(on_paper(partial(build_model, replace(config, tie_embeddings=tie))))
            for tie in (False, True)
        ]
        # Untied, a translator has three tables: the encoder's, the decoder's and the output's. An
        # encoder with a vocabulary of its own has its table in any case.
        tables = 2 if config.reads_source and not config.src_vocab_size else 1
        claim = tables * config.vocab_size * config.d_model
        rows.append(ResultRow("own_saved", (both[0] - both[1], claim)))
    yield 2, 2
    verdict = judged(tied == PUBLISHED, false=untied - tied != saved)
    return Result(verdict, COLUMNS, rows, bars="counted")


Shapes = dict[str, tuple[int, ...]]


def block_shapes(config: ModelConfig, shape: tuple[int, ...]) -> Shapes:
    """The shape of every tensor at an encoder block's hook points, for an input of this shape."""
    block = on_paper(lambda: Block(config).eval())
    name_hook_points(nn.ModuleDict({"blocks": nn.ModuleList([block])}))
    record = Record(lambda name: True)
    with torch.device("meta"), torch.inference_mode(), visiting(record):
        _ = block(torch.zeros(shape))
    return {name: tuple(tensor.shape) for name, tensor in record.activations.items()}


Run = Callable[[ModelConfig, tuple[int, ...]], Shapes]


def shape_flow(run: Run = block_shapes) -> Result:
    """The shapes in one block 4096/32/11008 for 32 sentences of 2048 tokens, as computed."""
    shapes = run(llama(tied=False), (32, 2048, 4096))
    half = 2  # bytes per bfloat16
    scores = _size(shapes[LONE.block_hook(0, "scores", "attn")])
    gate = _size(shapes[LONE.block_hook(0, "gate", "ffn")])
    rows = [
        ResultRow("d_head", (shapes[LONE.block_hook(0, "q", "attn")][-1], 128)),
        ResultRow("score_numbers", (scores, 32 * 32 * 2048**2)),
        ResultRow("score_gb", (round(scores * half / 1e9, 1), 8.6)),
        ResultRow("gate_gb", (round(gate * half / 1e9, 2), 1.44)),
        ResultRow("out_width", (shapes[LONE.block_hook(0, "resid_post")][-1], 4096)),
    ]
    return _counted(rows, "why", bars="")


def _size(shape: tuple[int, ...]) -> int:
    return torch.Size(shape).numel()


def layer_shapes(count: Count = numbers_of, run: Run = block_shapes) -> Result:
    """Encoder and decoder layers of 768/12/3072: their parameters and output shapes."""
    config = ModelConfig(vocab_size=3, d_model=768, n_layers=1, n_heads=12, d_ff=3072, ffn="gelu")
    layers = ((Block, "encoder_layer", 7_087_872), (DecoderBlock, "decoder_layer", 9_451_776))
    rows = [
        ResultRow(name, (count(on_paper(partial(block, config))), claim))
        for block, name, claim in layers
    ]
    shapes = run(config, (2, 10, 768))
    rows.append(ResultRow("d_head", (shapes[LONE.block_hook(0, "q", "attn")][-1], 64)))
    rows.append(
        ResultRow("out_numbers", (_size(shapes[LONE.block_hook(0, "resid_post")]), 2 * 10 * 768))
    )
    return _counted(rows, bars="")


def totals(count: Count = numbers_of) -> Result:
    """Three complete designs: 512/8/6/2048, 512/8/3/2048 and one block 4096/32/11008."""
    rows = [
        ResultRow("six_layers", (two_vocabularies(6, 100, 200, False, count), 44_394_696)),
        ResultRow("three_layers", (two_vocabularies(3, 1000, 2000, True, count), 24_633_296)),
        ResultRow("llama_block", (count(on_paper(partial(Block, llama(tied=False)))), 202_383_360)),
    ]
    return _counted(rows, "why")


def two_vocabularies(
    n_layers: int, n_source: int, n_target: int, final_norm: bool, count: Count
) -> int:
    """Parameters of a 512/8/2048 translator with one vocabulary per side and an output bias."""
    config = ModelConfig(
        vocab_size=n_target, src_vocab_size=n_source, d_model=512, n_layers=n_layers, n_heads=8,
        d_ff=2048, final_norm=final_norm, tie_embeddings=False, unembed_bias=True,
    )  # fmt: skip
    return count(on_paper(partial(build_model, config)))


N_NEAR, N_RANDOM = 10, 2000


@torch.inference_mode()
def tied_logits(loaded: LoadedModel, traced: Trace) -> Result:
    """The logits as dot products of the last vector with the embeddings, and the logits of similar
    tokens. Press & Wolf 2017; Inan et al. 2017.

    The logit of word w is h . E[w] if the output is tied. So the blocks must produce a vector that
    points to the embedding of the next word, and words with similar embeddings get similar logits.
    (The mean of all embeddings adds h . mean to every dot product alike, so embeddings are compared
    without it.) NaN for a model without logits.
    """
    names, columns = ("dot_error", "near_rank", "same_row"), ("value", "by_chance")
    if not traced.config.lm_head:
        blank = [ResultRow(name, (math.nan,) * 2) for name in names]
        return Result("depends", columns, blank, why=("no_logits",))
    model, config = loaded.model, loaded.config
    rows = outside(model.unembed.weight).numpy()
    embedding = outside(model.last_stack.embed.weight).numpy()
    final = torch.tensor(traced.activations[traced.stacks[-1].hook("resid_final")])
    last = shown(model.head)(shown(model.last_stack.final_norm)(final[None]))[0]
    bias = 0 if model.unembed.bias is None else outside(model.unembed.bias)
    as_dots = capped(last @ torch.tensor(embedding).T + bias, config.logit_cap).numpy()
    error = float(np.abs(as_dots - traced.logits).max())
    centred, centred_rows = embedding - embedding.mean(0), rows - rows.mean(0)
    rank = float(np.mean([_rank(logits, centred) for logits in traced.logits]))
    random = np.random.default_rng(0).permutation(len(embedding))[:N_RANDOM]
    same = float(cosines(centred[random], centred_rows[random]).mean())
    other = float(cosines(centred[random], centred_rows[np.roll(random, 1)]).mean())
    values = (error, math.nan), (rank, 0.5), (same, other)
    equal = error < 1e-3 * float(np.abs(traced.logits).max())
    verdict = judged(equal and rank < 0.25, false=rank >= 0.5)
    return Result(verdict, columns, [*map(ResultRow, names, values)])


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
