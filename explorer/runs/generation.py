"""One sentence decoded token by token, with the model's actual values at every step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.edits import CellEdit, Edit
from explorer.runs.inputs import (
    checked_number,
    given_tokens,
    limit,
    room_after,
    room_for_output,
    target_tokens,
)
from explorer.runs.interventions import covers, edit_functions, fits, rules_in_force, sizes_in_force
from explorer.runs.passes import Steps, at_once, give_way, so_far
from explorer.runs.sentences import clean_text
from models.decoding import DecodeStep, best, decode
from models.hooks import AttentionSite, Record, visiting
from models.rows import as_tensor, padded
from models.strategies import Greedy, Rules, Strategy, largest

N_CANDIDATES = 12
MAX_NEW_TOKENS = 128  # generated and shown step by step
"""Called with the steps done and their maximum; returns whether to continue."""
Recorded = tuple[DecodeStep, dict[str, np.ndarray]]
"""A step, and its attention by site name: [row, head, key]."""


@dataclass(frozen=True)
class Candidate:
    """One possible next token. `logprob` is the model's own (natural log); `prob` is after
    temperature, top-k and top-p, and 0 if those cut the token; `kept` is True if they did not."""

    token: int
    str_token: str
    logprob: float
    prob: float
    kept: bool


@dataclass(frozen=True, eq=False)
class GenerationStep:
    """One step: the tokens so far, the candidates, the chosen token, and the attention.

    `input_tokens` is the decoder's input so far, including `<s>`. `candidates` are the 12 most
    probable according to the model itself, then the chosen one if it is not among them.
    `chosen_prob` is the model's own probability of the chosen token, before any cut, and `rank` its
    rank among all tokens by that. `rows[site name]` is this step's attention [head, key] of every
    decoder self- and cross-attention site; its keys are `input_tokens`, or the source in
    cross-attention. `forced`: nothing was chosen.
    """

    index: int
    input_tokens: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    chosen: int
    chosen_str: str
    chosen_prob: float
    rank: int
    rows: dict[str, np.ndarray] = field(repr=False)
    forced: bool = False
    position: int = -1  # the query that predicts, an index into `input_tokens`; -1 its last one


@dataclass(frozen=True, eq=False)
class Generation:
    """A finished decoding. `steps` belong to the final text (for a beam: the best
    hypothesis); `logprob` is the sum over them; `finished`: the end token was generated.

    `given` are the tokens of the source with its end token, or of the prompt with its start token.
    `stopped`: the user ended it early.
    """

    model: str
    given: tuple[int, ...]
    src_str_tokens: tuple[str, ...]
    steps: tuple[GenerationStep, ...]
    tokens: tuple[int, ...]  # the output, with forced tokens and the end token
    text: str
    finished: bool
    logprob: float
    edits: tuple[Edit, ...] = ()
    ignored_edits: tuple[Edit, ...] = ()
    unknown: tuple[str, ...] = ()
    stopped: bool = False


def translate(
    loaded: LoadedModel,
    given: Sequence[int],
    edits: Sequence[Edit] = (),
    pads: int = 0,
    draft: Sequence[int] = (),
) -> tuple[list[int], bool]:
    """The greedy translation of a source under `edits`: its tokens, and whether it ended.

    `given` includes special tokens; `pads` padding tokens follow it. The translation is cut off at
    twice the source's length plus 20, which no sensible translation reaches. A `draft`, such as the
    translation without the edits, only makes it faster. Without an LM head nothing is generated:
    the decoder then reads the source's own tokens.
    """
    if not loaded.config.lm_head:
        return _unmarked(loaded, given)
    tokens, valid = padded([given], loaded.marks.of("src").pad, right=pads)
    most = longest(loaded, given)
    if edits and draft:
        return rewrite(loaded, tokens, valid, edits, draft, most)
    with visiting(edit_functions(loaded.sites, edits, valid)):
        (output,) = best(_decoding(loaded, tokens, valid, Greedy(), most, (), edits))
    return [token for token in output.tokens if not loaded.marks.ends(token)], output.finished


def translate_all(
    loaded: LoadedModel, sources: Sequence[Sequence[int]], edits: Sequence[Edit] = ()
) -> list[tuple[list[int], bool]]:
    """Several sources in one batch; each result as from `translate`.

    Under edits, the sources must have equal lengths. A step reads all weights once, however many
    sources there are.
    """
    if not loaded.config.lm_head:
        return [_unmarked(loaded, source) for source in sources]
    tokens, valid = padded(sources, loaded.marks.of("src").pad)
    limits = [longest(loaded, source) for source in sources]
    results = []
    with visiting(edit_functions(loaded.sites, edits)):
        outputs = best(_decoding(loaded, tokens, valid, Greedy(), max(limits), (), edits))
    for output, limit_ in zip(outputs, limits, strict=True):
        kept = [token for token in output.tokens[:limit_] if not loaded.marks.ends(token)]
        results.append((kept, output.finished and len(output.tokens) <= limit_))
    return results


def longest(loaded: LoadedModel, given: Sequence[int]) -> int:
    """The maximum number of tokens of a greedy translation."""
    return min(room_for_output(loaded), 2 * len(given) + 20)


def _unmarked(loaded: LoadedModel, given: Sequence[int]) -> tuple[list[int], bool]:
    if loaded.config.src_vocab_size:  # its ids mean other tokens to the decoder
        return [], True
    return [token for token in given if token not in loaded.marks], True


def _decoding(
    loaded: LoadedModel,
    tokens: Tensor,
    valid: Tensor | None,
    strategy: Strategy,
    max_new_tokens: int,
    forced: Sequence[int],
    edits: Sequence[Edit],
    rules: Rules | None = None,
) -> Iterator[DecodeStep]:
    return decode(
        loaded.model,
        tokens,
        strategy,
        max_new_tokens,
        src_valid=valid,
        prefix=forced,
        # A cache holds keys and values as they were computed at earlier steps. That is valid only
        # if no later token can reach them: without the causal mask, or with one future cell open,
        # every new token changes them all. And an edited cell is addressed by its query position,
        # which a cached step does not have. So under edits each step reads everything again.
        use_cache=not edits,
        rules=rules,
    )


def generating(
    loaded: LoadedModel,
    text: str,
    strategy: Strategy,
    max_new_tokens: int = 64,
    edits: Sequence[Edit] = (),
    forced: str | Sequence[int] = "",
    rules: Rules | None = None,
    known: Sequence[Recorded] = (),
) -> Steps[Generation]:
    """Decode `text` with `strategy` (`Greedy`, `Beam`, `Sample`), recording every step.

    A translator translates `text`, a decoder continues it, an encoder fills in its mask tokens;
    the Generation's text is the output, without `text` itself.
    `forced` is the prefix that the output must begin with, as text, or as token ids for exact
    tokens (ids after an end token are ignored). Fewer than `max_new_tokens` are generated if
    the sequence would exceed the token limit. After a stop, the Generation holds the output so far.
    `rules` apply to every choice. `known` are all steps, if they have been taken already.

    Raises InputProblem: as `clean_text`; `too_many_tokens`, `target_too_long` (more forced tokens
    than new ones), `bad_number` (max_new_tokens, a forced token id), `unknown_forced` (a forced
    text with characters that the vocabulary lacks), `nothing_to_fill`, `no_logits`.
    """
    edits = tuple(edits)
    ids, max_new_tokens = _given(loaded, text, max_new_tokens)
    prefix = forced_tokens(loaded, forced)
    if len(prefix) > max_new_tokens:
        raise InputProblem("target_too_long", limit=max_new_tokens, length=len(prefix))

    tokens = as_tensor([ids])
    visitor = edit_functions(loaded.sites, edits)
    decoding = _decoding(loaded, tokens, None, strategy, max_new_tokens, prefix, edits, rules)
    hooks = {site.hook("pattern"): site.name for site in loaded.sites if site.query_stream == "tgt"}
    taken: list[Recorded] = [*known]
    stopped = False
    while not stopped and not known:
        record = Record(hooks.__contains__, visitor)
        with visiting(record):
            step = next(decoding, None)
        if step is None:
            break
        # Only the row of the predicting query: without a cache the others are repeated.
        queries = (range(len(step.positions)), slice(None), list(step.positions))
        rows = {site: record.activations[hook][queries].numpy() for hook, site in hooks.items()}
        taken.append((step, rows))
        so_far.set(loaded.tokenizer.decode(step.best[0].tokens))
        stopped = (yield len(taken), max_new_tokens) is False
    so_far.set("")

    last = taken[-1][0]
    output = last.best[0]
    path = taken[: len(output.tokens)]
    n_src, n_tgt = len(ids), last.input_tokens.shape[1]
    fitting = tuple(edit for edit in edits if fits(edit, loaded.sites, n_src, n_tgt))
    return Generation(
        model=loaded.name,
        given=ids,
        src_str_tokens=(tuple(loaded.str_tokens(ids, "src")) if loaded.config.reads_source else ()),
        steps=tuple(
            _step(loaded, step, row, rows, token)
            for (step, rows), row, token in zip(path, output.rows, output.tokens, strict=True)
        ),
        tokens=output.tokens,
        text=loaded.tokenizer.decode(output.tokens),
        finished=output.finished,
        logprob=output.logprob,
        edits=fitting,
        ignored_edits=tuple(edit for edit in edits if edit not in fitting),
        unknown=tuple(loaded.tokenizer.of("src").unknown(clean_text(text))),
        stopped=stopped and bool(last.live[0]),
    )


generate = at_once(generating)


def unrecorded(
    loaded: LoadedModel,
    text: str,
    strategy: Strategy,
    max_new_tokens: int = 64,
    edits: Sequence[Edit] = (),
    rules: Rules | None = None,
) -> Steps[list[DecodeStep]]:
    """The bare steps that `generate` would take. Raises InputProblem as `generate`."""
    ids, max_new_tokens = _given(loaded, text, max_new_tokens)
    tokens = as_tensor([ids])
    visitor = edit_functions(loaded.sites, edits)
    decoding = _decoding(loaded, tokens, None, strategy, max_new_tokens, (), edits, rules)
    steps: list[DecodeStep] = []
    while True:
        # Entered anew for each step: between two of them other code runs.
        with visiting(visitor):
            step = next(decoding, None)
        if step is None:
            return steps
        steps.append(step)
        yield len(steps), max_new_tokens


def _given(loaded: LoadedModel, text: str, max_new_tokens: int) -> tuple[tuple[int, ...], int]:
    """The model's input, and the maximum number of new tokens. Raises InputProblem."""
    checked_number("max_new_tokens", max_new_tokens, 1, MAX_NEW_TOKENS)
    ids = given_tokens(loaded, text)
    if not loaded.config.lm_head:
        raise InputProblem("no_logits")
    left = room_after(loaded, as_tensor([ids]))
    if left < 1 and not loaded.config.generates:
        raise InputProblem("nothing_to_fill")
    if left < 1:
        raise InputProblem("too_many_tokens", limit=limit(loaded) - 1, length=len(ids))
    return ids, min(max_new_tokens, left)


def room(loaded: LoadedModel, text: str) -> int:
    """The maximum number of tokens after `text`. Raises InputProblem as `generate`."""
    return _given(loaded, text, MAX_NEW_TOKENS)[1]


def forced_tokens(loaded: LoadedModel, forced: str | Sequence[int]) -> tuple[int, ...]:
    """The forced prefix as ids, up to an end token. Raises InputProblem as `generate`."""
    if isinstance(forced, str):
        unknown = loaded.tokenizer.of("tgt").unknown(forced)
        if unknown:
            raise InputProblem("unknown_forced", characters=" ".join(unknown[:20]))
        return tuple(target_tokens(loaded, forced))
    for token in forced:
        checked_number("forced", token, 0, loaded.config.vocab_size - 1)
    ended = next((at for at, token in enumerate(forced) if loaded.marks.ends(token)), len(forced))
    return tuple(forced[: ended + 1])


def _step(
    loaded: LoadedModel, step: DecodeStep, row: int, rows: dict[str, np.ndarray], chosen: int
) -> GenerationStep:
    """The result of one decoding step for one of its rows, in which `chosen` was chosen."""
    give_way()  # over all steps this takes longer than a forward pass
    inputs = step.input_tokens[row].tolist()
    place = step.positions[row]
    before = inputs[-1] if place == -1 else inputs[place - 1]
    log_probs, probs = step.log_probs[row], step.probs[row]

    def shown_as(token: int) -> str:
        return loaded.str_tokens([before, token])[-1]

    shown = [token for token, _ in largest(log_probs, N_CANDIDATES)]
    candidates = tuple(
        Candidate(
            token=token,
            str_token=shown_as(token),
            logprob=float(log_probs[token]),
            prob=float(probs[token]),
            kept=bool(probs[token] > 0),
        )
        for token in (*shown, *([] if chosen in shown else [chosen]))
    )
    return GenerationStep(
        index=step.index,
        input_tokens=tuple(loaded.str_tokens(inputs)),
        candidates=candidates,
        chosen=chosen,
        chosen_str=shown_as(chosen),
        chosen_prob=float(log_probs[chosen].exp()),
        rank=1 + int((log_probs > log_probs[chosen]).sum()),
        rows={site: patterns[row] for site, patterns in rows.items()},
        forced=step.forced,
        position=step.positions[row],
    )


BEYOND = 2**31
"""A position that no row has."""


def rewrite(
    loaded: LoadedModel,
    src: Tensor,
    src_valid: Tensor,
    edits: Sequence[Edit],
    draft: Sequence[int],
    most: int,
) -> tuple[list[int], bool]:
    """The greedy translation of `src` [1, pos] under `edits`: its tokens, and whether it ended.

    A decoder reads many tokens in hardly more time than one: each pass loads every weight. So the
    tokens of a draft are read together, and are accepted up to the first that the model itself
    would not have generated (speculative decoding: Leviathan, Kalman and Matias 2023, with a given
    draft instead of a small model's). The output does not depend on the draft, up to float32
    rounding if two tokens are equally probable.

    `draft` is a guess at it, without an end token; at most `most` tokens are generated.
    Raises ValueError if the model returns no probabilities (NaN).
    """
    model, marks = loaded.model, loaded.marks
    rows = model.begin(src, src_valid).to(next(model.parameters()).device)
    written: list[int] = []
    guess = list(draft)
    with torch.inference_mode(), visiting(edit_functions(loaded.sites, edits, src_valid)):
        memory = model.memory_of(rows)
        while len(written) < most:
            end = min(first_seen(loaded.sites, edits, len(written)), most)
            ahead = guess[: end - len(written) - 1]
            tgt = torch.cat((rows.tgt, rows.tgt.new_tensor([[*written, *ahead]])), 1)
            x = model.last_stack.run(replace(rows, tgt=tgt), memory)
            logits = model.logits_of(x[:, len(written) :])[0]
            if logits.isnan().any():
                raise ValueError("the model's logits give no probabilities (NaN)")
            if marks.pad is not None and marks.pad == marks.start:
                logits[:, marks.pad] = -torch.inf  # as in `models.decoding`
            for at, token in enumerate(logits.argmax(-1).tolist()):
                if marks.ends(token):
                    return written, True
                written.append(token)
                # The rest of the guess: the token occurs later in it, or replaces its first one.
                guess = guess[(guess.index(token) if token in guess else 0) + 1 :]
                if at == len(ahead) or token != ahead[at]:
                    break
    return written, False


def first_seen(sites: Sequence[AttentionSite], edits: Sequence[Edit], query: int) -> int:
    """The first position after `query` that an earlier query may attend to; past the end if none.

    A token generated later at such a position changes what was computed for earlier ones.
    """
    own = [site for site in sites if site.kind == "self" and site.query_stream == "tgt"]
    if not rules_in_force(edits)["causal"] or query + 1 < sizes_in_force(edits).get("prefix", 0):
        return query + 1
    places = (
        edit.key
        for edit in edits
        if isinstance(edit, CellEdit) and edit.open and edit.key > max(edit.query, query)
        if any(covers(edit, site) for site in own)
    )
    return min(places, default=BEYOND)
