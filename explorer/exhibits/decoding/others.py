"""What another strategy generates."""

from dataclasses import dataclass

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
    """The tokens that a strategy generates, and their log-probability."""

    tokens: tuple[int, ...]
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
    return Output(best.tokens, loaded.tokenizer.decode(best.tokens), best.logprob)


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
    own = Output(film.tokens, film.text, film.logprob)
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
    strategy = view.t("decoding.strategies", strategy_name(others.strategy))
    rule = f"{view.t('decoding.rule')} · {view.t('decoding.rules', others.rule)}"
    for how, other in ((strategy, others.other), (rule, others.ruled)):
        if other is not None:
            same = other.tokens == others.own.tokens
            words = view.t(
                "decoding.other_same" if same else "decoding.other_differs",
                how=how,
                text=escape(other.text),
                logprob=fixed(other.logprob),
                own=fixed(others.own.logprob),
            )
            yield b.Hero((b.Note(words),))
    if others.other is not None and others.other.tokens == others.own.tokens:
        yield b.Offer("beam")


EXHIBIT = Exhibit(
    compute, show, open=_is_open, wait=Wait("decoding.working", after="decoding.film")
)
