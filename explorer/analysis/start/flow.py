"""One text on its way through a model: tokens, positions, every head, and each step's output."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float

from explorer.analysis.heads.sinks import Sinks, renormalised, sinks_of
from explorer.library import LoadedModel
from explorer.runs.activations import Activations, survey
from explorer.runs.edits import Edit
from explorer.runs.generation import Generation
from explorer.runs.inputs import rows_of, str_tokens, target_row
from explorer.runs.labelled import Labelled, labelled
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, StackSite
from models.rows import Rows

MOST_THREADS = 72
"""The maximum number of bins: a longer sequence is drawn in bins of neighbouring tokens."""
MOST_CELLS = 1_500_000
"""Cells of all heads together; a model with very many heads gets fewer bins."""
WAVES = 6
"""Position dimensions in the figure, from the fastest to the slowest."""
SHOWN_VALUES = 24
"""Values of an embedding in the figure: the first ones."""
MOST_CANDIDATES = 6


@dataclass(frozen=True, eq=False)
class AttentionFlow:
    """One attention sublayer. `pattern` [head, query, key] comes from one pass over the whole
    sequence.

    `allowed` [head, query, key] is True if any token of a bin may attend. `steps` [step, head,
    key] is the row of each step when the step was taken; keys that did not exist yet at that step
    have `allowed_then` False.
    """

    site: AttentionSite
    pattern: Float[np.ndarray, "head query key"]
    allowed: Bool[np.ndarray, "head query key"]
    steps: Float[np.ndarray, "step head key"]
    allowed_then: Bool[np.ndarray, "step key"]


@dataclass(frozen=True, eq=False)
class Lane:
    """One sequence: its tokens, `starts` the first token of each thread, its blocks in order.

    `embedded` [thread, value] and `waves` [thread, wave] are those of each thread's first token.
    `turns`: the waves are not added but rotate queries and keys. None: the model has none.
    """

    stack: StackSite
    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    embedded: Float[np.ndarray, "thread value"] | None
    waves: Float[np.ndarray, "thread wave"] | None
    turns: bool
    blocks: tuple[tuple[AttentionFlow, ...], ...]


@dataclass(frozen=True, eq=False)
class FlowStep:
    """One step: the thread whose logits are read, and the candidates, most probable first.

    `chosen` is an index into `tokens`, None if nothing is written, and `text` the output so far
    including it; `token` is the position of the query.
    """

    token: int
    thread: int
    tokens: tuple[str, ...] = ()
    chances: tuple[float, ...] = ()
    chosen: int | None = None
    text: str = ""


@dataclass(frozen=True, eq=False)
class Flow:
    """The data of the figure. `lanes` are the source, if there is one, and the target.

    The last lane has `given` tokens before the first step. `sinks` are those left out, by site.
    `activations`: of the same forward pass as the patterns.
    """

    lanes: tuple[Lane, ...]
    given: int
    steps: tuple[FlowStep, ...]
    sinks: tuple[Sinks, ...]
    activations: Activations


def flow(
    loaded: LoadedModel,
    traced: Trace,
    generation: Generation | None,
    edits: Sequence[Edit] = (),
    without_sinks: bool = False,
) -> Flow:
    """The flow of a text through the model: of `generation` if there is one, else of `traced`.

    `edits` are the generation's. Raises ValueError if the runs are of a different model.
    """
    if loaded.name != traced.model or (generation is not None and generation.model != traced.model):
        raise ValueError(f"the run was made by {traced.model!r}, not by {loaded.name!r}")
    rows = rows_of_flow(loaded, traced, generation)
    activations, _ = survey(loaded, rows, edits)
    sizes = {stream: rows.tokens(stream).shape[1] for stream in loaded.model.reads}
    starts = {
        stream: bins(n, sum(site.n_heads for site in traced.sites)) for stream, n in sizes.items()
    }

    sinks = {}
    if without_sinks:
        tgt, names = tuple(rows.tgt[0].tolist()), str_tokens(loaded, rows, "tgt")
        whole = replace(traced, tgt_tokens=tgt, tgt_str_tokens=names, activations=activations)
        whole = replace(whole, tgt_valid=np.ones(len(tgt), bool))
        sinks = {site.name: sinks_of(loaded, whole, site) for site in traced.sites}

    def attention(site: AttentionSite) -> AttentionFlow:
        across = starts[site.query_stream], starts[site.key_stream]
        pattern = activations[site.hook("pattern")]
        taken, then = _steps_of(site, generation, sizes[site.key_stream])
        if site.name in sinks:
            left_out = sinks[site.name].left_out
            pattern = renormalised(pattern, left_out)
            taken = renormalised(taken.swapaxes(0, 1), left_out).swapaxes(0, 1)
        return AttentionFlow(
            site,
            in_bins(pattern, *across),
            _any_in_bins(activations[site.hook("mask")], *across),
            np.add.reduceat(taken, across[1], axis=-1),
            np.logical_or.reduceat(then, across[1], axis=-1),
        )

    def embedded(stack: StackSite) -> np.ndarray | None:
        values = activations.get(stack.hook("embed"))
        return None if values is None else values[list(starts[stack.stream]), :SHOWN_VALUES]

    lanes = tuple(
        Lane(
            stack=stack,
            tokens=str_tokens(loaded, rows, stack.stream),
            starts=starts[stack.stream],
            embedded=embedded(stack),
            blocks=tuple(tuple(map(attention, block)) for block in traced.blocks(stack)),
            waves=_waves(loaded, stack, activations, starts[stack.stream]),
            turns=loaded.config.position_type.acts == "turns",
        )
        for stack in traced.stacks
    )
    if generation is None:
        labels = None if loaded.classifier is None else labelled(loaded, traced)
        steps = _labels(labels, starts["tgt"]) or tuple(
            FlowStep(token=start, thread=at) for at, start in enumerate(starts["tgt"])
        )
    else:
        steps = _written(loaded, generation, starts["tgt"])
    n_given = sizes["tgt"]
    if generation is not None and loaded.config.generates:
        n_given -= len(generation.steps) - 1
    return Flow(lanes, n_given, steps, tuple(sinks.values()), activations)


def bins(n_tokens: int, n_heads: int) -> tuple[int, ...]:
    """The first token of each thread: one thread per token, or bins of almost equal size."""
    most = max(8, min(MOST_THREADS, isqrt(MOST_CELLS // max(1, n_heads))))
    if n_tokens <= most:
        return tuple(range(n_tokens))
    return tuple(int(start) for start in np.linspace(0, n_tokens, most + 1)[:-1])


def in_bins(
    pattern: Float[np.ndarray, "*head query key"], queries: Sequence[int], keys: Sequence[int]
) -> Float[np.ndarray, "*head query_bin key_bin"]:
    """A pattern in bins: weights on the keys of a bin are summed, rows of a bin averaged.

    So the row sums are preserved.
    """
    n_query = pattern.shape[-2]
    sizes = np.diff([*queries, n_query])[:, None]
    summed = np.add.reduceat(pattern, keys, axis=-1)
    return np.add.reduceat(summed, queries, axis=-2) / sizes


def _any_in_bins(
    mask: Bool[np.ndarray, "head query key"], queries: Sequence[int], keys: Sequence[int]
) -> Bool[np.ndarray, "head query_bin key_bin"]:
    open_keys = np.logical_or.reduceat(mask, keys, axis=-1)
    return np.logical_or.reduceat(open_keys, queries, axis=-2)


def rows_of_flow(loaded: LoadedModel, traced: Trace, generation: Generation | None) -> Rows:
    """The whole text but the last generated token: one pass over it repeats every decoding step."""
    if generation is None:
        tgt, src = list(traced.tgt_tokens), list(traced.src_tokens)
    elif loaded.config.fills:
        tgt, src = list(generation.given), []
        for step in generation.steps[:-1]:
            tgt[step.position] = step.chosen
    elif "src" in loaded.model.reads:
        tgt, src = list(target_row(loaded, generation.tokens[:-1])), list(generation.given)
    else:
        tgt, src = [*generation.given, *generation.tokens[:-1]], []
    return rows_of(loaded, src, tgt) if src else rows_of(loaded, tgt)


def _steps_of(
    site: AttentionSite, generation: Generation | None, n_keys: int
) -> tuple[Float[np.ndarray, "step head key"], Bool[np.ndarray, "step key"]]:
    """The rows of a decoder's site at every step; empty at other sites."""
    steps = generation.steps if generation else ()
    read = [step.rows[site.name] for step in steps if site.name in step.rows]
    rows = np.zeros((len(read), site.n_heads, n_keys), np.float32)
    then = np.zeros((len(read), n_keys), bool)
    for at, row in enumerate(read):
        rows[at, :, : row.shape[-1]] = row
        then[at, : row.shape[-1]] = True
    return rows, then


def _waves(
    loaded: LoadedModel, stack: StackSite, activations: Activations, starts: Sequence[int]
) -> Float[np.ndarray, "thread wave"] | None:
    """The positional vectors, in dimensions from fast to slow; for positions that rotate, the sine
    of the angle by which each pair is rotated. None if positions do neither."""
    values, step = activations.get(stack.hook("pos_embed")), 2
    if values is None:
        at = torch.arange(starts[-1] + 1)[None]  # on the CPU, as the part is
        positions: Any = loaded.part(stack.path("positions"))
        rotation = positions.place(at, at).rotation
        if rotation is None:
            return None
        values, step = rotation[1][0, 0].numpy(), 1
    pairs = _telling(values.shape[1] // step, starts[-1], loaded.config.rope_base)
    return np.asarray(values[list(starts)][:, step * pairs])


def _telling(n_pairs: int, last: int, base: float) -> np.ndarray:
    """Pairs of dimensions from the fastest to one whose wavelength is several times the length of
    the sequence: slower ones would be straight lines."""
    slowest = n_pairs * np.log(max(last / 2, 2)) / np.log(base)
    return np.unique(np.linspace(0, min(n_pairs - 1, slowest), WAVES).round().astype(int))


GAP = "___"
"""The placeholder for a word that is not filled in yet."""


def text_after(loaded: LoadedModel, generation: Generation, step: int) -> str:
    """The output after a step: the translation, the continued text, or the filled text."""
    if loaded.config.generates:
        before = () if "src" in loaded.model.reads else generation.given
        return loaded.tokenizer.decode([*before, *generation.tokens[: step + 1]])
    parts: list[list[int]] = [[]]
    filled = {moment.position: moment.chosen for moment in generation.steps[: step + 1]}
    for place, token in enumerate(generation.given):
        if token == loaded.marks.mask and place not in filled:
            parts.append([])
        else:
            parts[-1].append(filled.get(place, token))
    return f" {GAP} ".join(loaded.tokenizer.decode(part).strip() for part in parts).strip()


def _written(
    loaded: LoadedModel, generation: Generation, starts: Sequence[int]
) -> tuple[FlowStep, ...]:
    """The steps of a decoding, with the most probable candidates and the chosen one."""
    steps = []
    for at, step in enumerate(generation.steps):
        place = len(step.input_tokens) - 1 if step.position == -1 else step.position
        shown = list(step.candidates[:MOST_CANDIDATES])
        if step.chosen not in [candidate.token for candidate in shown]:
            shown[-1:] = [
                candidate for candidate in step.candidates if candidate.token == step.chosen
            ]
        steps.append(
            FlowStep(
                token=place,
                thread=int(np.searchsorted(starts, place, side="right")) - 1,
                tokens=tuple(candidate.str_token for candidate in shown),
                chances=tuple(float(np.exp(candidate.logprob)) for candidate in shown),
                chosen=[candidate.token for candidate in shown].index(step.chosen),
                text=text_after(loaded, generation, at),
            )
        )
    return tuple(steps)


def _labels(labels: Labelled | None, starts: Sequence[int]) -> tuple[FlowStep, ...]:
    """The labels of a classification head: at the first token, or at each thread's first token.

    Empty for a mean over all tokens, and for values that are not probabilities.
    """
    if labels is None or labels.head.gives == "value" or labels.head.pool == "mean":
        return ()
    names, steps = labels.head.labels, []
    for thread, start in enumerate(starts[: len(labels.chances)]):
        chances = labels.chances[start]
        best = np.argsort(-chances, kind="stable")[:MOST_CANDIDATES]
        shown = tuple(names[at] for at in best), tuple(float(chances[at]) for at in best)
        steps.append(FlowStep(start, thread, *shown))
    return tuple(steps)
