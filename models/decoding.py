"""Decoding: encode once, then generate token by token; each step is an immutable `DecodeStep`.

    memory = encode(src)                            once
    log_probs = log_softmax(model(tokens)[-1])      one forward per step; with the cache, over the
    choose, append, stop at eos or at the limit     new token only

`decode` is a generator: nothing runs until a step is requested. To read or edit the tensors of a
step, wrap the call to `next` in `visiting`:

    steps = decode(model, src, Beam(width=4), max_new_tokens=64)
    while True:
        record = Record(wants)
        with visiting(record):
            step = next(steps, None)  # the encoder runs in the first call only

Each step uses the visitor of the context that calls `next`. `decode` sets none: a ContextVar set
inside a generator would stay set for its caller between steps. For the same reason no inference or
no_grad mode is active across a yield.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.cache import KVCache
from models.rows import Rows, Tokens
from models.strategies import Hypothesis, Rules, Strategy, require_whole
from models.transformer import Model


@dataclass(frozen=True, eq=False)
class DecodeStep:
    """The inputs, scores and choices of one decoding step.

    Tensors have one row per live hypothesis that the step extended, grouped by sentence, best
    first, in the order of the previous step's `live`; `sentences` maps each row to its sentence.
    """

    index: int  # 0 for the first output token
    forced: bool  # the token was given by `prefix`
    sentences: tuple[int, ...]  # sentence index per row
    input_tokens: Int[Tensor, "row pos"]  # decoder input so far: bos or the prompt, then outputs
    positions: tuple[int, ...]  # per row: the query whose logits are used, on this pass's axis
    log_probs: Float[Tensor, "row vocab"]  # of the model, before rules and strategy
    probs: Float[Tensor, "row vocab"]  # truncated by the strategy: sums to 1, 0 where cut
    live: tuple[tuple[Hypothesis, ...], ...]  # per sentence, best first; empty once finished
    ended: tuple[tuple[Hypothesis, ...], ...]  # per sentence, finished ones kept, by score
    ruled: Float[Tensor, "row vocab"]  # `log_probs` after the rules: the basis of the choice

    @property
    def best(self) -> tuple[Hypothesis, ...]:
        """The output per sentence if decoding ended here: the best finished or else live one."""
        return tuple((ended or live)[0] for ended, live in zip(self.ended, self.live, strict=True))


def best(steps: Iterable[DecodeStep]) -> tuple[Hypothesis, ...]:
    """Run all steps and return the output per sentence (`DecodeStep.best`); empty if no steps."""
    last = deque(steps, maxlen=1)
    return last[0].best if last else ()


def decode(
    model: Model,
    src: Tokens,
    strategy: Strategy,
    max_new_tokens: int,
    *,
    src_valid: Bool[Tensor, "batch src"] | None = None,
    prefix: Sequence[int] | None = None,
    use_cache: bool = True,
    rules: Rules | None = None,
) -> Iterator[DecodeStep]:
    """Generate an output for each row of `src`, step by step, up to eos or `max_new_tokens`.

    `src` is the model's input with its special tokens (`Model.with_marks`): the source of a
    translator, the prompt to continue, or a text whose mask tokens are filled in from left to
    right. Shorter rows are padded (`src_valid` False); padding does not change their output.

    `prefix` holds the first output tokens, forced on every sentence. Each is a normal step, marked
    `forced`, and counts towards the limit; eos is allowed only as its last token. Without
    `use_cache`, every step recomputes the whole sequence: same numbers, complete patterns.
    `rules` apply to every choice, except when mask tokens are filled in.

    Learned positions limit the tokens read to n_ctx; other positional encodings do not. Raises
    ValueError at the call, not at the first step: for a model in training mode or without logits,
    a malformed src, ids outside the vocabulary, lengths beyond the limits, or a text to fill in
    without a mask token.
    """
    forced = () if prefix is None else tuple(prefix)
    _require_decodable(model, src, src_valid, max_new_tokens, forced)
    device = next(model.parameters()).device
    src, src_valid = src.long().to(device), None if src_valid is None else src_valid.to(device)
    reader = _Filler if model.config.fills else _Writer
    begin = partial(reader, model, model.begin(src, src_valid), use_cache, strategy.may_pad)
    rules = rules if rules and model.config.generates else None
    return _steps(begin, strategy, max_new_tokens, forced, rules)


def _require_decodable(
    model: Model, src: Tensor, src_valid: Tensor | None, max_new_tokens: int, prefix: Sequence[int]
) -> None:
    """Raise ValueError if `decode` cannot run with these arguments."""
    config = model.config
    if model.training:
        why = "where dropout changes every step: call model.eval()"
        raise ValueError(f"the model is in training mode, {why}")
    if not model.config.lm_head:
        raise ValueError("the model has no LM head, so there is nothing to decode")
    require_whole("max_new_tokens", max_new_tokens, 0)
    src = src[..., 0] * 0 if config.picture else src  # patches have no ids
    if src.dim() != 2 or 0 in src.shape or src.is_floating_point() or src.dtype == torch.bool:
        form = f"{src.dtype} {tuple(src.shape)}"
        raise ValueError(f"src is {form}: it must be token ids [batch, pos], not empty")
    src_valid = torch.ones_like(src, dtype=torch.bool) if src_valid is None else src_valid
    if src_valid.dtype != torch.bool or src_valid.shape != src.shape:
        asked = f"Bool {tuple(src.shape)} as src is"
        form = f"{src_valid.dtype} {tuple(src_valid.shape)}"
        raise ValueError(f"src_valid is {form}: it must be {asked}")
    lengths = src_valid.sum(1).tolist()
    if 0 in lengths:
        raise ValueError(f"row {lengths.index(0)} of src has no real token")
    for name, ids in (("src", (int(src.min()), int(src.max()))), ("prefix", prefix)):
        for token in ids:
            if not isinstance(token, int) or not 0 <= token < config.vocab_size:
                span = f"from 0 to {config.vocab_size - 1}"
                raise ValueError(f"{name} contains {token!r}: token ids are whole numbers {span}")
    ended = [place for place, token in enumerate(prefix) if model.marks.ends(token)]
    if model.config.generates and ended and ended[0] < len(prefix) - 1:
        why = "eos ends an output, so it may stand at the end only"
        raise ValueError(f"prefix contains eos_id = {prefix[ended[0]]} at {ended[0]}: {why}")
    if len(prefix) > max_new_tokens:
        room = f"max_new_tokens = {max_new_tokens} leaves no room"
        raise ValueError(f"prefix has {len(prefix)} tokens: {room}")
    if model.config.fills:
        if model.marks.mask is None or not bool((src == model.marks.mask).any(1).all()):
            raise ValueError("every row of src must contain a mask token to fill in")
        return
    if (longest := config.longest) is not None:
        learned = f"only n_ctx = {longest} positions were learned"
        if max(lengths) > longest:
            raise ValueError(f"src has {max(lengths)} tokens: {learned}")
        read = int(model.begin(src, src_valid).valid("tgt").sum(1).max())
        if read + max_new_tokens - 1 > longest:  # the last new token is never read
            fit = f"after {read} given tokens {longest - read + 1} fit, as {learned}"
            raise ValueError(f"max_new_tokens is {max_new_tokens}: {fit}")


class _Writer:
    """State of a decoding that appends tokens: one row per live hypothesis, cached or not."""

    def __init__(self, model: Model, rows: Rows, use_cache: bool, may_pad: bool = False) -> None:
        self.model, self.rows = model, rows
        self.may_pad, self.prompt = may_pad, rows.tgt.shape[1]
        self.sentences = list(range(len(rows)))  # sentence index per row
        self.cache = KVCache(model.config.n_layers) if use_cache else None
        self.memory: Tensor | None = None  # the encoder's output, once it has run

    def positions(self) -> tuple[int, ...]:
        """Per row: the query position whose logits are used, as an index on this pass's axis."""
        return (-1,) * len(self.rows)

    def scores(self) -> Float[Tensor, "row vocab"]:
        """One forward pass: the logits of each row's next token."""
        with torch.inference_mode():
            logits = self.logits()
        marks = self.model.marks
        if marks.pad is not None and marks.pad == marks.start and not self.may_pad:
            logits = logits.clone()  # never generated if PAD is also the start token
            logits[:, marks.pad] = -torch.inf
        # Half precision is too coarse for sums.
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def logits(self) -> Float[Tensor, "row vocab"]:
        """Run the tokens that are not cached; unembed only the last, since that dominates cost."""
        if self.rows.tgt.shape[1] > self.model.config.cacheable:
            self.cache = None  # from here on each new token changes the rotation of earlier keys
        new = self.rows.tgt[:, self.cache.length if self.cache else 0 :]
        x = self.model.last_stack.run(replace(self.rows, tgt=new), self.memory, self.cache)
        return self.model.logits_of(x[:, -1:])[:, -1]

    def ends(self, row: int, output: tuple[int, ...]) -> bool:
        """Whether an output that extends `row` is complete."""
        return self.model.marks.ends(output[-1])

    def go_on(self, parents: list[int], tokens: list[int]) -> None:
        """Row i becomes row parents[i] extended by tokens[i]."""
        if parents != list(range(len(self.rows))):
            index = self.rows.tgt.new_tensor(parents)
            if self.cache is not None:
                self.cache.select(index)
            self.memory = None if self.memory is None else self.memory[index]
            self.rows = self.rows.select(index)
            self.sentences = [self.sentences[parent] for parent in parents]
        self.write(self.rows.tgt.new_tensor(tokens))

    def write(self, tokens: Int[Tensor, " row"]) -> None:
        """Append one token to each row."""
        new, valid = tokens[:, None], self.rows.tgt_valid
        valid = None if valid is None else torch.cat((valid, torch.ones_like(new).bool()), dim=1)
        self.rows = replace(self.rows, tgt=torch.cat((self.rows.tgt, new), 1), tgt_valid=valid)


class _Filler(_Writer):
    """State of a decoding that fills in mask tokens, from left to right."""

    def __init__(self, model: Model, rows: Rows, use_cache: bool, may_pad: bool = False) -> None:
        super().__init__(model, rows, use_cache=False)  # attention is bidirectional
        # Computed once: a model may predict the mask token itself.
        self.places = [(row == model.marks.mask).nonzero()[:, 0].tolist() for row in rows.tgt]
        self.n_filled = 0

    def positions(self) -> tuple[int, ...]:
        return tuple(self.places[sentence][self.n_filled] for sentence in self.sentences)

    def logits(self) -> Float[Tensor, "row vocab"]:
        return self.model.read(self.rows)[torch.arange(len(self.rows)), list(self.positions())]

    def ends(self, row: int, output: tuple[int, ...]) -> bool:
        return len(output) == len(self.places[self.sentences[row]])

    def write(self, tokens: Int[Tensor, " row"]) -> None:
        """Replace the current mask token of each row."""
        filled = self.rows.tgt.clone()  # earlier `DecodeStep`s still refer to the old tensor
        filled[torch.arange(len(filled)), list(self.positions())] = tokens
        self.rows, self.n_filled = replace(self.rows, tgt=filled), self.n_filled + 1


def _steps(
    begin: Callable[[], _Writer],
    strategy: Strategy,
    max_new_tokens: int,
    prefix: tuple[int, ...],
    rules: Rules | None,
) -> Iterator[DecodeStep]:
    """The loop of `decode`: score, let the strategy choose, extend the chosen hypotheses."""
    if max_new_tokens == 0:
        return
    reader = begin()
    with torch.inference_mode():  # here, so that the encoder runs under the first step's visitor
        reader.memory = reader.model.memory_of(reader.rows)
    n_sentences = len(reader.rows)
    draws = strategy.draws(n_sentences)
    live = [[Hypothesis((), 0.0, 0.0, rows=(), finished=False)] for _ in range(n_sentences)]
    ended: list[list[Hypothesis]] = [[] for _ in range(n_sentences)]
    for index in range(max_new_tokens):
        scores = reader.scores()
        log_probs = scores.log_softmax(-1)
        if log_probs[:, 0].isnan().any():  # a softmax is NaN everywhere or nowhere
            raise ValueError(f"step {index}: the model's logits give no probabilities (NaN)")
        ruled = log_probs
        if rules is not None:
            basis = log_probs if strategy.sums else scores  # as `transformers` does it
            every_end = reader.model.marks.all_ends
            ruled = rules.applied(basis, reader.rows.tgt, reader.prompt, max_new_tokens, every_end)
            ruled = ruled if strategy.sums else ruled.log_softmax(-1)
        probs = strategy.probs(ruled)
        draw, first = next(draws), 0
        for s, parents in enumerate(live):
            if not parents:
                continue
            rows = slice(first, first + len(parents))
            room = strategy.room(len(ended[s]), len(reader.model.marks.all_ends))
            if index < len(prefix):
                chosen = [(0, prefix[index])]  # a single hypothesis during the prefix
            else:
                totals = [hypothesis.total for hypothesis in parents]
                chosen = strategy.choose(ruled[rows], probs[rows], totals, room, draw[s])
            places = [first + k for k, _ in chosen], [token for _, token in chosen]
            # Rules do not affect the score of forced tokens.
            picked = (log_probs if index < len(prefix) else ruled)[places].tolist()
            children = []
            for (k, token), gain, own in zip(chosen, picked, log_probs[places], strict=True):
                output, total = (*parents[k].tokens, token), parents[k].total + gain
                rows_so_far = (*parents[k].rows, first + k)
                score = strategy.score(total, len(output))
                ends = reader.ends(first + k, output)
                logprob = parents[k].logprob + float(own)
                children.append(Hypothesis(output, logprob, score, rows_so_far, ends, total))
            first += len(parents)
            live[s], ended[s] = strategy.settle(children, ended[s], max_new_tokens - index - 1)
        yield DecodeStep(
            index=index,
            forced=index < len(prefix),
            sentences=tuple(reader.sentences),
            input_tokens=reader.rows.tgt.cpu(),
            positions=reader.positions(),
            log_probs=log_probs,
            probs=probs,
            live=tuple(map(tuple, live)),
            ended=tuple(map(tuple, ended)),
            ruled=ruled,
        )
        if not any(live):
            return
        if index + 1 < max_new_tokens:
            following = [hypothesis for of_sentence in live for hypothesis in of_sentence]
            reader.go_on([h.rows[-1] for h in following], [h.tokens[-1] for h in following])
