"""What another strategy generates, and where it diverges."""

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.decoding.choices import DecodingChoices, Strategy
from explorer.exhibits.decoding.strategy import OURS, strategy_name, with_rule
from explorer.library import LoadedModel
from explorer.numbers import fixed
from explorer.runs.edits import Edit
from explorer.runs.generation import Generation, unrecorded
from explorer.runs.passes import Steps
from models.foreign.elsewhere import RefillingBeam
from models.strategies import Beam, Greedy

AT_ONCE = 50_000_000
"""Parameters of the largest model whose other strategy is decoded unasked."""


@dataclass(frozen=True)
class Output:
    """The tokens that a strategy generates, also as they are shown, and their log-probability."""

    tokens: tuple[int, ...]
    str_tokens: tuple[str, ...]
    text: str
    logprob: float


@dataclass(frozen=True, eq=False)
class Others:
    """The outputs of the film, of `strategy` and of the beam rule `rule`; None: not computed.

    Not the film's Generation, which would be stored twice.
    """

    own: Output
    strategy: Strategy
    other: Output | None
    rule: str
    ruled: Output | None


def output(
    loaded: LoadedModel,
    text: str,
    strategy: Strategy,
    edits: tuple[Edit, ...],
    limit: int,
    ruled: bool,
) -> Steps[Output]:
    """What `strategy` generates, without recording the steps. Raises InputProblem."""
    rules = loaded.asked.rules if ruled else None
    steps = yield from unrecorded(loaded, text, strategy, limit, edits, rules)
    best = steps[-1].best[0]
    shown = (
        loaded.str_tokens([int(step.input_tokens[row, -1]), token])[-1]
        for step, row, token in zip(steps, best.rows, best.tokens, strict=False)
    )
    text = loaded.tokenizer.decode(best.tokens)
    return Output(best.tokens, tuple(shown), text, best.logprob)


def compute(
    loaded: LoadedModel,
    text: str,
    strategy: Strategy,
    beam: Beam,
    edits: tuple[Edit, ...],
    limit: int,
    ruled: bool,
    film: Generation,
) -> Steps[Others]:
    """Beam search for greedy decoding and the reverse; for a beam, also the other rule."""
    other: Strategy = beam if isinstance(strategy, Greedy) else Greedy()
    rule = OURS if isinstance(strategy, RefillingBeam) else "refill"
    shown = tuple(step.chosen_str for step in film.steps)
    own = Output(film.tokens, shown, film.text, film.logprob)
    of_other = of_rule = None
    if not film.stopped and _is_quick(loaded):
        of_other = yield from output(loaded, text, other, edits, limit, ruled)
    if not film.stopped and isinstance(strategy, Beam):
        ruled_beam = with_rule(strategy, rule)
        of_rule = yield from output(loaded, text, ruled_beam, edits, limit, ruled)
    return Others(own, other, of_other, rule, of_rule)


def _is_quick(loaded: LoadedModel) -> bool:
    return loaded.n_parameters <= AT_ONCE and loaded.config.generates


def _is_open(view: View) -> bool:
    """Whether there is a comparison: not for a forced prefix."""
    choices = view.choices(DecodingChoices)
    return not choices.fork and (isinstance(choices.strategy, Beam) or _is_quick(view.loaded))


def show(others: Others | None, view: View) -> b.Blocks:
    """One line each below the film: Branches lists all texts."""
    if others is None:
        return
    for other, line in ((others.other, _strategies), (others.ruled, _rules)):
        if other is not None:
            key, words = line(view, others, other)
            yield b.Hero((b.Pane((b.Note(view.t(key, **words)),), key=key),))
    if others.other is not None and others.other.tokens == others.own.tokens:
        yield b.Offer("beam")


def _strategies(view: View, others: Others, other: Output) -> tuple[str, dict[str, Any]]:
    words = {
        "other": view.t(f"decoding.{strategy_name(others.strategy)}"),
        "text": escape(other.text),
        "logprob": fixed(other.logprob),
        "own": fixed(others.own.logprob),
    }
    if other.tokens == others.own.tokens:
        return "decoding.strategies_same", words
    pairs = enumerate(zip_longest(other.tokens, others.own.tokens))
    at = next(at for at, (theirs, own) in pairs if theirs != own)
    ends = view.t("decoding.ends")
    theirs, ours = (
        escape(tokens[at]) if at < len(tokens) else ends
        for tokens in (other.str_tokens, others.own.str_tokens)
    )
    parted = {"step": at + 1, "theirs": theirs, "ours": ours}
    return "decoding.strategies_part", words | parted


def _rules(view: View, others: Others, ruled: Output) -> tuple[str, dict[str, Any]]:
    key = "rules_same" if ruled.tokens == others.own.tokens else "rules_differ"
    return f"decoding.{key}", {
        "rule": view.t(f"decoding.rule_{others.rule}"),
        "text": escape(ruled.text),
        "logprob": fixed(ruled.logprob),
        "own": fixed(others.own.logprob),
    }


EXHIBIT = Exhibit(
    compute, show, open=_is_open, wait=Wait("decoding.working", after="decoding.film")
)
