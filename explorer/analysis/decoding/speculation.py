"""Speculative decoding of one text: drafted tokens, accepted tokens, and the savings.

A draft model has only read the model's own output, up to its first wrong token. So whether it is
right at a token does not depend on how many tokens it drafts at once: one pass of the draft over
the finished text gives `agree`, and `passes` counts the passes for any number of drafted tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool

from explorer.analysis.decoding.caching import multiply_adds
from explorer.library import LoadedModel, same_vocabulary
from explorer.runs.passes import timed
from explorer.runs.speculative import Round, speculate
from models.config import ModelConfig
from models.decoding import best, decode
from models.pictures.patches import as_tensor
from models.strategies import Greedy
from models.transformer import Model

MOST_DRAFTED = 10
RUNS = 3
_LAYERS = "layers-"


def layers_of(draft: str) -> int | None:
    """The number of the model's own layers that `layers-2` uses; None for another model's name."""
    number = draft.removeprefix(_LAYERS)
    return int(number) if number != draft and number.isascii() and number.isdecimal() else None


def drafts(loaded: LoadedModel) -> tuple[str, ...]:
    """The possible drafts for a model: its own first layers, most first, and other models.

    All share the model's vocabulary: tokens of another vocabulary could not be checked.
    """
    own = (f"{_LAYERS}{n}" for n in range(loaded.config.n_layers - 1, 0, -1))
    return (*own, *same_vocabulary(loaded.name))


@dataclass(frozen=True, eq=False)
class Speculation:
    """Speculative decoding of one text compared with greedy decoding.

    `rounds` hold token ids; `drafted` and `written` are the same tokens as displayed. `same`: the
    text equals that of greedy decoding. `agree` [token]: whether the draft, given the tokens before
    a token of the text, ranks that token first. `adds` are multiply-adds in the decoders: of greedy
    decoding (with a cache), of the model in the rounds, of the draft. `seconds`: for each of RUNS
    tries, greedy decoding and the rounds.
    """

    rounds: tuple[Round, ...]
    drafted: tuple[tuple[str, ...], ...]
    written: tuple[tuple[str, ...], ...]
    same: bool
    agree: Bool[np.ndarray, " token"]
    adds: tuple[int, int, int]
    seconds: tuple[tuple[float, ...], tuple[float, ...]]

    @property
    def n_written(self) -> int:
        """Tokens generated, which is also the number of passes of greedy decoding."""
        return sum(len(each.written) for each in self.rounds)

    @property
    def n_drafted(self) -> int:
        """Tokens drafted, which is also the number of passes of the draft."""
        return sum(len(each.drafted) for each in self.rounds)

    @property
    def n_accepted(self) -> int:
        """Drafted tokens that were accepted."""
        return sum(each.accepted for each in self.rounds)


def speculation(
    loaded: LoadedModel, draft: Model, given: tuple[int, ...], n_drafted: int, limit: int
) -> Speculation:
    """Decode the continuation of `given` with `n_drafted` draft tokens per round, and greedily.

    Generates at most `limit` tokens, which must fit both models. Raises ValueError as `speculate`.
    """
    model, src = loaded.model, as_tensor([given])
    rounds = tuple(speculate(model, draft, src, n_drafted, limit))
    output = tuple(token for each in rounds for token in each.written)
    drafted, written, n = [], [], 0
    for each in rounds:
        drafted.append(_shown(loaded, output[:n], each.drafted))
        written.append(_shown(loaded, output[:n], each.written))
        n += len(each.written)
    start = model.begin(src)
    n_start, n_src = start.tgt.shape[1], len(given) if model.config.reads_source else 0
    return Speculation(
        rounds=rounds,
        drafted=tuple(drafted),
        written=tuple(written),
        same=best(decode(model, src, Greedy(), limit))[0].tokens == output,
        agree=agreement(draft, src, output),
        adds=(
            adds(model.config, draft.config, n_src, n_start, _one_by_one(n))[0],
            *adds(model.config, draft.config, n_src, n_start, rounds),
        ),
        seconds=_seconds(model, draft, src, n_drafted, limit),
    )


def _shown(
    loaded: LoadedModel, before: tuple[int, ...], tokens: tuple[int, ...]
) -> tuple[str, ...]:
    return tuple(loaded.str_tokens([*before, *tokens])[len(before) :])


def _one_by_one(n: int) -> tuple[Round, ...]:
    """The rounds of greedy decoding, without drafted tokens."""
    return (Round((), (0,), 0),) * n


@torch.inference_mode()
def agreement(
    draft: Model, given: torch.Tensor, output: tuple[int, ...]
) -> Bool[np.ndarray, " token"]:
    """Whether each token of `output` is the draft's best after the tokens before it."""
    begin = draft.begin(given)
    row = torch.cat((begin.tgt, torch.tensor([output[:-1]], dtype=torch.long)), dim=1)
    chosen = draft.read(replace(begin, tgt=row))[0, -len(output) :].argmax(-1)
    agree: np.ndarray = (chosen == torch.tensor(output)).numpy()
    return agree


def passes(agree: Bool[np.ndarray, " token"], n_drafted: int) -> int:
    """Rounds for a text with `n_drafted` tokens per round: each is a right run and one token."""
    n, rounds = 0, 0
    while n < len(agree):
        run = agree[n : n + n_drafted]
        n += (len(run) if run.all() else int(run.argmin())) + 1
        rounds += 1
    return rounds


def adds(
    model: ModelConfig, draft: ModelConfig, n_src: int, n_start: int, rounds: tuple[Round, ...]
) -> tuple[int, int]:
    """Multiply-adds (`multiply_adds`) of the model and of the draft for these rounds.

    `n_start` tokens precede the output. Both models use a cache, and read the tokens after the
    first wrong one again.
    """
    of_model = of_draft = in_model = in_draft = n = 0
    for each in rounds:
        for i in range(len(each.drafted)):
            length = n_start + n + i
            of_draft += multiply_adds(draft, n_src, in_draft, length - in_draft)
            in_draft = length
        length = n_start + n + len(each.drafted)
        of_model += multiply_adds(model, n_src, in_model, length - in_model)
        right = n_start + n + each.accepted
        in_model, in_draft = right, min(in_draft, right)
        n += len(each.written)
    return of_model, of_draft


def _seconds(
    model: Model, draft: Model, given: torch.Tensor, n_drafted: int, limit: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The times of the loop without drafting and with `n_drafted` tokens, alternating."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(RUNS):
        for k, times in zip((0, n_drafted), taken, strict=True):
            times.append(sum(_times_of(speculate(model, draft, given, k, limit))))
    return tuple(taken[0]), tuple(taken[1])


def _times_of(rounds: Iterator[Round]) -> Iterator[float]:
    """The seconds of each round; yields to other sessions between rounds."""
    while True:
        seconds, one = timed(lambda: next(rounds, None))
        if one is None:
            return
        yield seconds
