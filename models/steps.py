"""What one step of decoding read, computed and chose, ready to be shown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from models.strategies import largest


@dataclass(frozen=True)
class Hypothesis:
    """One output so far: its tokens, without bos and prompt, with forced tokens and eos.

    `logprob` is the sum of the model's own log-probabilities of all of them, whatever a strategy
    cut; `score` compares outputs of different lengths (`Beam`'s rule; otherwise the logprob).
    `parent` is the row of `log_probs` that it extends, in the step that made it, which was step
    len(tokens) - 1.
    """

    tokens: tuple[int, ...]
    logprob: float
    score: float
    parent: int
    finished: bool  # the last token is eos


@dataclass(frozen=True, eq=False)
class DecodeStep:
    """All that one step read, computed and chose.

    Tensors have one row per live hypothesis that the step extended, sentence by sentence and best
    first, in the order of the step before's `live`: one row a sentence with `Greedy` and `Sample`.
    Finished sentences have no rows any more; `sentences` says whose row each is.
    """

    index: int  # 0 for the first output token
    forced: bool  # the token was given by `prefix`
    sentences: tuple[int, ...]  # of each row
    input_tokens: Int[Tensor, "row pos"]  # what the decoder has read: bos or the prompt, outputs
    positions: tuple[int, ...]  # of each row: the query that was read out, on this pass's axis
    log_probs: Float[Tensor, "row vocab"]  # the model's own
    probs: Float[Tensor, "row vocab"]  # after the strategy's cuts: sums to 1, exactly 0 where cut
    live: tuple[tuple[Hypothesis, ...], ...]  # per sentence, best first; empty once finished
    ended: tuple[tuple[Hypothesis, ...], ...]  # per sentence, all finished so far, by score
    fallen: tuple[tuple[Hypothesis, ...], ...]  # per sentence, the best that did not survive

    def candidates(self, row: int, n: int) -> list[int]:
        """The `n` most probable tokens of a row by the model's own probability, best first."""
        return [token for token, _ in largest(self.log_probs[row], n)]

    @property
    def best(self) -> tuple[Hypothesis, ...]:
        """Per sentence the answer if decoding ended here: the best finished, else live output."""
        return tuple((ended or live)[0] for ended, live in zip(self.ended, self.live, strict=True))


def best(steps: Iterable[DecodeStep]) -> tuple[Hypothesis, ...]:
    """Run through all steps; per sentence the final tokens, logprob and whether it is finished.

    A function of the last step alone (`DecodeStep.best`). Empty when there was no step.
    """
    last = None
    for last in steps:  # noqa: B007
        pass
    return last.best if last else ()


def lineage(steps: Sequence[DecodeStep], hypothesis: Hypothesis) -> tuple[int, ...]:
    """The row that led to `hypothesis` in each step from the first to the one that made it.

    `steps` are all steps from the first on, at least up to the hypothesis's own; so
    `steps[i].log_probs[lineage(steps, h)[i], h.tokens[i]]` add up to `h.logprob`.
    """
    rows = [hypothesis.parent]
    for step in reversed(steps[: len(hypothesis.tokens) - 1]):
        rows.append([h for of_sentence in step.live for h in of_sentence][rows[-1]].parent)
    return tuple(reversed(rows))
