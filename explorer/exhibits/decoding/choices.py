"""Choices on the Decoding page, and the link format of a strategy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import (
    RefusedError,
    as_digit,
    choice,
    dotted,
    switch,
    tokens,
    unlinked,
    whole,
)
from models.foreign.elsewhere import RefillingBeam
from models.strategies import Beam, Greedy, Sample

Strategy = Greedy | Beam | Sample
GREEDY: Strategy = Greedy()
MOST_NEW = 128
ABOVE = ("decoding.strategy", "decoding.film", "decoding.others")
"""The exhibits at the top of every part."""


STOPS: dict[str, bool | Literal["never"]] = {"refill": False, "early": True, "never": "never"}
"""Names of the three values of `early_stopping` in links and menus."""


def rule_of(early_stopping: bool | str) -> str:
    """The name of a value of `early_stopping`: "refill", "early" or "never"."""
    return next(name for name, value in STOPS.items() if value == early_stopping)


def format_strategy(strategy: Strategy) -> str:
    """`greedy`, `beam-4-0.6` or `sample-0.8-40-0.95-1` (temperature, top-k, top-p, seed).

    Beam search by the rule of `transformers` ends in its `early_stopping`: `beam-4-0.6-refill`.
    """
    match strategy:
        case RefillingBeam(width=width, length_penalty=penalty, early_stopping=stop):
            return f"beam-{width}-{penalty:g}-{rule_of(stop)}"
        case Beam(width=width, length_penalty=penalty):
            return f"beam-{width}-{penalty:g}"
        case Sample(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed):
            return f"sample-{temperature:g}-{top_k or 0}-{1.0 if top_p is None else top_p:g}-{seed}"
    return "greedy"


def parse_strategy(text: str) -> Strategy:
    """Read what `format_strategy` wrote. Raises ValueError for anything else."""
    match text.split("-"):
        case ["greedy"]:
            return Greedy()
        case ["beam", width, penalty] if 1 <= int(width) <= 8 and 0 <= float(penalty) <= 2:
            return Beam(width=int(width), length_penalty=float(penalty))
        case ["beam", width, penalty, rule] if rule in STOPS:
            beam = parse_strategy(f"beam-{width}-{penalty}")
            return RefillingBeam(**vars(beam), early_stopping=STOPS[rule])
        case ["sample", temperature, top_k, top_p, seed] if (
            0 <= float(temperature) <= 3
            and 0 <= int(top_k) <= 100
            and 0 <= float(top_p) <= 1
            and 0 <= int(seed) <= 9999
        ):
            return Sample(
                temperature=float(temperature), top_k=int(top_k), top_p=float(top_p), seed=int(seed)
            )
    raise ValueError(f"no decoding strategy {text!r}")


def _only(kind: type[Beam] | type[Sample]) -> Callable[[str], Any]:
    def read(text: str) -> Strategy:
        strategy = parse_strategy(text)
        if not isinstance(strategy, kind):
            raise RefusedError(text)
        return strategy

    return read


@dataclass(frozen=True)
class DecodingChoices(PageChoices):
    """`strategy` decodes the film, `fork` is the forced prefix of a second output (token ids),
    `limit` the most new tokens, `beam` and `sample` the settings of the tree's other strategies,
    `lines` a training batch. `ruled`: the rules of the model's own generation_config.json are
    applied. `film_turn` is the number of the film's last message, and `typed_token` a token that
    could not be forced."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "branches": (*ABOVE, "decoding.branches", "decoding.tree"),
        "cache": (*ABOVE, "decoding.caching"),
    }
    pictures: ClassVar[tuple[str, ...]] = ("sides", "difference")
    ruled: bool = choice(True, switch, as_digit)
    strategy: Strategy = choice(GREEDY, parse_strategy, format_strategy)
    fork: tuple[int, ...] = choice((), tokens, dotted)
    limit: int = choice(64, whole(0, MOST_NEW))
    beam: Beam = choice(Beam(), _only(Beam), format_strategy)
    sample: Sample = choice(Sample(seed=1), _only(Sample), format_strategy)
    lines: str | None = choice(None, str)
    film_turn: int | None = unlinked(None)
    typed_token: str = unlinked("")
