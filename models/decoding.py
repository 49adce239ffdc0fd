"""Decoding: encode once, then one token after another, one frozen `DecodeStep` at a time.

    memory = encode(src)                            once
    log_probs = log_softmax(model(tokens)[-1])      one forward per step; with the cache, over the
    choose, append, stop at eos or at the limit     new token only

`decode` is a generator: nothing runs until a step is asked for. To see or edit the tensors of a
step, put `visiting` around the call that asks for it:

    steps = decode(model, src, Beam(width=4), max_new_tokens=64)
    while True:
        record = Record(wants)
        with visiting(record):
            step = next(steps, None)  # the encoder runs in the first call only

The visitor in force is the one of whoever calls `next`, step by step; `decode` sets none, since a
ContextVar set inside a generator would stay set for its caller between two steps. For the same
reason no inference or no_grad mode is held across a yield.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.cache import KVCache
from models.steps import DecodeStep, Hypothesis, best, lineage
from models.strategies import Beam, Greedy, Sample, Strategy, require_whole
from models.transformer import EncoderDecoder, Model

__all__ = [
    "Beam",
    "DecodeStep",
    "Greedy",
    "Hypothesis",
    "Sample",
    "Strategy",
    "best",
    "decode",
    "lineage",
]


def decode(
    model: Model,
    src: Int[Tensor, "batch src"],
    strategy: Strategy,
    max_new_tokens: int,
    *,
    src_valid: Bool[Tensor, "batch src"] | None = None,
    prefix: Sequence[int] | None = None,
    use_cache: bool = True,
    n_candidates: int = 12,
) -> Iterator[DecodeStep]:
    """Write an output for each row of `src`, one step at a time, to eos or `max_new_tokens`.

    `src` is the source of an `EncoderDecoder` (tokens and eos; the output starts after a bos that
    `decode` adds), or the prompt of a `DecoderOnly` (with its bos), which the output continues.
    Rows of different length are padded, with `src_valid` False at padding; prompts are moved to
    the right, so that every output starts in the same column. A row comes out as it would alone.

    `prefix` holds the first output tokens, forced on every sentence. Each is a step like any
    other, marked `forced`, and counts towards the limit; eos may stand at its end only.
    Without `use_cache` every step reads the whole row again: the same numbers, whole patterns.
    `n_candidates`: a beam's step reports its best so many extensions of a sentence, survivors
    included; those that did not survive are in `fallen`.

    Learned positions end at n_ctx, so there the tokens read must fit it. Other kinds of position
    run on beyond n_ctx, though nothing longer was seen in training.
    Raises ValueError, naming what is wrong, here and not at the first step: a model in training
    mode, an empty or ill-formed src, token ids outside the vocabulary, lengths beyond the limits.
    """
    require_whole("n_candidates", n_candidates, 0)
    forced = () if prefix is None else tuple(prefix)
    _check(model, src, src_valid, max_new_tokens, forced)
    device = next(model.parameters()).device
    src, src_valid = src.long().to(device), None if src_valid is None else src_valid.to(device)
    return _steps(model, src, src_valid, strategy, max_new_tokens, forced, use_cache, n_candidates)


def _check(
    model: Model,
    src: Tensor,
    src_valid: Tensor | None,
    max_new_tokens: int,
    prefix: tuple[int, ...],
) -> None:
    """Raise ValueError for whatever `decode` cannot start with."""
    config = model.config
    if model.training:
        raise ValueError(
            "the model is in training mode, where dropout changes every step: call model.eval()"
        )
    require_whole("max_new_tokens", max_new_tokens, 0)
    if src.dim() != 2 or 0 in src.shape or src.is_floating_point() or src.dtype == torch.bool:
        raise ValueError(
            f"src is {src.dtype} {tuple(src.shape)}: it must be token ids [batch, pos], not empty"
        )
    if src_valid is None:
        src_valid = torch.ones_like(src, dtype=torch.bool)
    if src_valid.dtype != torch.bool or src_valid.shape != src.shape:
        raise ValueError(
            f"src_valid is {src_valid.dtype} {tuple(src_valid.shape)}: it must be Bool "
            f"{tuple(src.shape)} as src is"
        )
    lengths = src_valid.sum(1).tolist()
    if 0 in lengths:
        raise ValueError(f"row {lengths.index(0)} of src has no real token")
    for name, ids in (("src", (int(src.min()), int(src.max()))), ("prefix", prefix)):
        for token in ids:
            if not isinstance(token, int) or not 0 <= token < config.vocab_size:
                raise ValueError(
                    f"{name} holds {token!r}: token ids are whole numbers from 0 to "
                    f"{config.vocab_size - 1}"
                )
    if config.eos_id in prefix[:-1]:
        raise ValueError(
            f"prefix holds eos_id = {config.eos_id} at place {prefix.index(config.eos_id)}: eos "
            "ends an output, so it may stand at the end only"
        )
    if len(prefix) > max_new_tokens:
        raise ValueError(
            f"prefix has {len(prefix)} tokens: max_new_tokens = {max_new_tokens} leaves no room"
        )
    if config.longest is not None:
        read = 1 if isinstance(model, EncoderDecoder) else max(lengths)
        if max(lengths) > config.longest:
            raise ValueError(
                f"src has {max(lengths)} tokens: only n_ctx = {config.longest} positions were "
                "learned"
            )
        if read + max_new_tokens - 1 > config.longest:  # the last new token is never read
            raise ValueError(
                f"max_new_tokens is {max_new_tokens}: after {read} given tokens "
                f"{config.longest - read + 1} fit, as only n_ctx = {config.longest} positions were "
                "learned"
            )


class _Reader:
    """The model and the rows that it reads: one row per live hypothesis, cached or not."""

    def __init__(
        self, model: Model, src: Tensor, src_valid: Tensor | None, use_cache: bool
    ) -> None:
        self.model = model
        self.sentences = list(range(len(src)))  # whose row each is
        self.cache = KVCache(model.config.n_layers) if use_cache else None
        self.n_read = 0  # columns already in the cache
        self.memory: Tensor | None = None
        self.src_valid: Tensor | None = None
        self.valid: Tensor | None = None  # [row, pos]; None where every token is real
        if isinstance(model, EncoderDecoder):
            with torch.inference_mode():
                self.memory = model.encode(src, src_valid)
            self.src_valid = src_valid
            self.tokens = torch.full_like(src[:, :1], model.config.bos_id)
        elif src_valid is None or bool(src_valid.all()):
            self.tokens = src
        else:
            order = src_valid.long().argsort(dim=1, stable=True)  # padding first, words in order
            self.tokens, self.valid = src.gather(1, order), src_valid.gather(1, order)

    def log_probs(self) -> Float[Tensor, "row vocab"]:
        """One forward: the model's log-probabilities of the token after each row.

        Without a cache the whole row is read, and unembedded at its end only: in a small model the
        vocabulary costs more than all blocks.
        """
        tokens = self.tokens[:, self.n_read :]
        # The mode ends with this block: a generator must not leave it on for its caller.
        with torch.inference_mode():
            if isinstance(self.model, EncoderDecoder):
                assert self.memory is not None
                logits = self.model.decode(
                    tokens, self.memory, self.src_valid, self.valid, self.cache, last_only=True
                )
            else:
                logits = self.model(tokens, self.valid, self.cache, last_only=True)
        if self.cache is not None:
            self.n_read = self.tokens.shape[1]
        wide = torch.promote_types(logits.dtype, torch.float32)  # half precision: sums need more
        return logits[:, -1].to(wide).log_softmax(-1)

    def go_on(self, parents: list[int], tokens: list[int]) -> None:
        """Row i becomes row parents[i] followed by tokens[i]."""
        if parents != list(range(len(self.sentences))):
            rows = torch.tensor(parents, device=self.tokens.device)
            self.tokens = self.tokens[rows]
            self.valid = None if self.valid is None else self.valid[rows]
            sentences = [self.sentences[parent] for parent in parents]
            # Rows of one sentence share memory and cross-attention: moved only for other sentences.
            moved = sentences != self.sentences
            self.sentences = sentences
            if moved and self.memory is not None:
                self.memory = self.memory[rows]
                self.src_valid = None if self.src_valid is None else self.src_valid[rows]
            if self.cache is not None:
                cross = self.cache.cross_attn if moved else []
                for layer in (*self.cache.self_attn, *cross):
                    layer.select(rows)
        new = torch.tensor(tokens, dtype=self.tokens.dtype, device=self.tokens.device)
        self.tokens = torch.cat((self.tokens, new[:, None]), dim=1)
        if self.valid is not None:
            self.valid = torch.nn.functional.pad(self.valid, (0, 1), value=True)


def _steps(
    model: Model,
    src: Tensor,
    src_valid: Tensor | None,
    strategy: Strategy,
    max_new_tokens: int,
    prefix: tuple[int, ...],
    use_cache: bool,
    n_candidates: int,
) -> Iterator[DecodeStep]:
    if max_new_tokens == 0:
        return
    eos_id, pad_id = model.config.eos_id, model.config.pad_id
    reader = _Reader(model, src, src_valid, use_cache)
    draws = strategy.draws(len(src))
    live = [[Hypothesis((), 0.0, 0.0, parent=0, finished=False)] for _ in range(len(src))]
    ended: list[list[Hypothesis]] = [[] for _ in range(len(src))]
    for index in range(max_new_tokens):
        log_probs = reader.log_probs()
        if log_probs[:, 0].isnan().any():  # a softmax is NaN everywhere or nowhere
            raise ValueError(f"step {index}: the model's logits give no probabilities (NaN)")
        probs = strategy.probs(log_probs)
        draw = next(draws)
        first, tokens = 0, [pad_id] * len(src)
        fallen: list[list[Hypothesis]] = [[] for _ in range(len(src))]
        for s, parents in enumerate(live):
            if not parents:
                continue
            rows = slice(first, first + len(parents))
            room = strategy.room(len(ended[s]))
            if index < len(prefix):
                chosen = [(0, prefix[index])]  # nothing but the prefix so far: one hypothesis
            else:
                totals = [hypothesis.logprob for hypothesis in parents]
                n = max(room, n_candidates)
                chosen = strategy.choose(log_probs[rows], probs[rows], totals, n, draw[s])
            picked = log_probs[[first + k for k, _ in chosen], [token for _, token in chosen]]
            made = []
            for (k, token), gain in zip(chosen, picked.tolist(), strict=True):
                output, logprob = (*parents[k].tokens, token), parents[k].logprob + gain
                score = strategy.score(logprob, len(output))
                made.append(Hypothesis(output, logprob, score, first + k, token == eos_id))
            first += len(parents)
            tokens[s] = made[0].tokens[-1]
            live[s] = [h for h in made[:room] if not h.finished]
            ended[s] = sorted((*ended[s], *(h for h in made[:room] if h.finished)), key=_by_score)
            fallen[s] = made[room:]
        yield DecodeStep(
            index=index,
            forced=index < len(prefix),
            sentences=tuple(reader.sentences),
            input_tokens=reader.tokens,
            input_valid=(
                torch.ones_like(reader.tokens, dtype=torch.bool)
                if reader.valid is None
                else reader.valid
            ),
            log_probs=log_probs,
            probs=probs,
            tokens=torch.tensor(tokens, device=src.device),
            finished=torch.tensor([not hypotheses for hypotheses in live], device=src.device),
            live=tuple(map(tuple, live)),
            ended=tuple(map(tuple, ended)),
            fallen=tuple(map(tuple, fallen)),
        )
        if not any(live):
            return
        if index + 1 < max_new_tokens:
            following = _flat(live)
            reader.go_on([h.parent for h in following], [h.tokens[-1] for h in following])


def _flat(hypotheses: Iterable[Sequence[Hypothesis]]) -> list[Hypothesis]:
    return [hypothesis for of_sentence in hypotheses for hypothesis in of_sentence]


def _by_score(hypothesis: Hypothesis) -> float:
    return -hypothesis.score
