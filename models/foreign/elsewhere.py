"""Generation as in `transformers`: its rules (logits processors) and its beam search.

Rules forbid, force or penalise tokens: they change the scores [row, vocab] before a token is
chosen. Keskar et al. 2019 (repetition penalty); Paulus et al. 2018 (n-grams).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.strategies import Beam, Hypothesis, by_score


@dataclass(frozen=True)
class GenerationRules:
    """Rules for generation.

    `forced_first` is the first token, `forced_last` the last one at the length limit. `forbidden`
    are sequences that are not generated; `never` are tokens that are not generated, even if forced.
    `not_first` are tokens that may not begin an output. `no_ngram` n > 0: no n-gram of a row may be
    repeated.
    """

    repetition_penalty: float = 1.0
    no_ngram: int = 0
    forbidden: tuple[tuple[int, ...], ...] = ()
    never: tuple[int, ...] = ()
    not_first: tuple[int, ...] = ()
    forced_first: int | None = None
    forced_last: int | None = None
    min_new_tokens: int = 0

    def __bool__(self) -> bool:
        """Whether any rule is set."""
        return self != GenerationRules()

    def applied(
        self,
        scores: Float[Tensor, "row vocab"],
        rows: Int[Tensor, "row pos"],
        prompt: int,
        limit: int,
        ends: tuple[int, ...],
    ) -> Float[Tensor, "row vocab"]:
        """The scores under these rules; -inf for tokens that may not follow.

        The first `prompt` tokens of each row were given, and at most `limit` are generated; `ends`
        are the ids that end an output. A row without any allowed token keeps its scores.
        """
        result, written = scores.clone(), rows.shape[1] - prompt
        if self.repetition_penalty != 1:
            seen = result.gather(1, rows)
            penalised = torch.where(
                seen < 0, seen * self.repetition_penalty, seen / self.repetition_penalty
            )
            result = result.scatter(1, rows, penalised)
        for row, tokens in enumerate(rows.tolist()):
            result[row, self._blocked(tokens)] = -math.inf
        if written < self.min_new_tokens:
            result[:, list(ends)] = -math.inf
        # One token only: the start token of a translator, since a prompt is longer.
        if self.forced_first is not None and rows.shape[1] == 1:
            result = _only(result, self.forced_first)
        if self.forced_last is not None and written == limit - 1:
            result = _only(result, self.forced_last)
        result[:, list(self.never)] = -math.inf
        first = 1 if self.forced_first is not None and prompt == 1 else 0
        if written == first:
            result[:, list(self.not_first)] = -math.inf
        return torch.where(result.isneginf().all(1, keepdim=True), scores, result)

    def _blocked(self, tokens: list[int]) -> list[int]:
        """Tokens that would complete a forbidden sequence or repeat an n-gram."""
        completions = [run[-1] for run in self.forbidden if _ends_with(tokens, run[:-1])]
        n = self.no_ngram
        if n and len(tokens) >= n - 1:
            begun = tokens[len(tokens) - n + 1 :]
            places = range(len(tokens) - n + 1)
            completions += [tokens[at + n - 1] for at in places if tokens[at : at + n - 1] == begun]
        return completions


def _ends_with(tokens: list[int], run: tuple[int, ...]) -> bool:
    return len(run) <= len(tokens) and tuple(tokens[len(tokens) - len(run) :]) == run


def _only(scores: Tensor, token: int) -> Tensor:
    """Scores that allow only one token."""
    return torch.full_like(scores, -math.inf).index_fill(1, scores.new_tensor([token]).long(), 0.0)


@dataclass(frozen=True)
class RefillingBeam(Beam):
    """The beam search of `transformers` (5.24, `_beam_search`), with the same answers.

    It differs from `Beam` in three ways:
    1. The beam is always `width` wide: the next live hypothesis replaces a finished one. A finished
       one counts as an answer only if it is among the best `width` extensions of its step.
    2. The best `width` answers are kept; a better one replaces the worst.
    3. With `early_stopping` True, the search ends as soon as there are `width` answers. With False,
       it ends when the best live hypothesis, scored at its current length, is no better than the
       worst answer; "never" scores it at the maximum length if the length penalty is above 0. At
       the limit the best live ones are answers too.

    Padding is treated like any other token. Raises ValueError as `Beam` does.
    """

    may_pad: ClassVar[bool] = True
    early_stopping: bool | Literal["never"] = False

    def room(self, n_finished: int, n_ends: int = 1) -> int:
        return max(2, 1 + n_ends) * self.width

    def settle(
        self, hypotheses: Sequence[Hypothesis], ended: Sequence[Hypothesis], left: int
    ) -> tuple[list[Hypothesis], list[Hypothesis]]:
        among = [
            hypothesis for hypothesis in hypotheses[: self.width] if hypothesis.finished or not left
        ]
        answers = sorted([*ended, *among], key=by_score)[: self.width]
        live = (
            [hypothesis for hypothesis in hypotheses if not hypothesis.finished][: self.width]
            if left
            else []
        )
        if live and len(answers) == self.width and self._is_over(live[0], answers[-1], left):
            live = []
        return live, answers

    def _is_over(self, best: Hypothesis, worst: Hypothesis, left: int) -> bool:
        if self.early_stopping is True:
            return True
        farthest = self.early_stopping == "never" and self.length_penalty > 0
        length = len(best.tokens) + (left if farthest else 0)
        return self.score(best.total, length) <= worst.score
