"""Questions that training runs can answer: two setups, each with several seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.training.comparing import Difference, Measure, arms, band, difference
from explorer.training.runs import TrainingRun
from explorer.training.setup import Setup

SEEDS = (1, 2, 3)
QUICK = Setup(task="reverse", d_model=32, d_ff=64, steps=200, batch=512, warmup=50)


@dataclass(frozen=True)
class RunComparison:
    """`first` and `second` are compared by `measure` at their last step. `id` is a text key."""

    id: str
    first: Setup
    second: Setup
    measure: Measure

    def setups(self) -> list[Setup]:
        """All setups, seed by seed, so that both bands grow evenly."""
        return [replace(each, seed=seed) for seed in SEEDS for each in (self.first, self.second)]

    def runs(self, runs: Sequence[TrainingRun]) -> tuple[list[TrainingRun], list[TrainingRun]]:
        """The runs set up for this question, without faults; the newest of each seed."""
        found: dict[Setup, TrainingRun] = {
            run.setup: run for run in runs if not run.faults and not run.gone_back
        }
        return (
            [found[each] for each in self.setups()[::2] if each in found],
            [found[each] for each in self.setups()[1::2] if each in found],
        )

    def answer(self, runs: Sequence[TrainingRun]) -> Difference | None:
        """The result of the runs; None until all of them are done."""
        first, second = self.runs(runs)
        if len(first) + len(second) < 2 * len(SEEDS) or any(
            run.state != "done" for run in (*first, *second)
        ):
            return None
        bands = [band(arms(each)[0], self.measure) for each in (first, second)]
        return difference(bands[0], bands[1], self.measure)


def _of(**changes: object) -> Setup:
    return replace(QUICK, **changes)  # type: ignore[arg-type]


QUESTIONS: tuple[RunComparison, ...] = (
    RunComparison("warmup_pre", _of(), _of(warmup=1), "loss"),
    RunComparison(
        "warmup_post",
        _of(norm_placement="post", n_layers=4),
        _of(norm_placement="post", n_layers=4, warmup=1),
        "loss",
    ),
    RunComparison("beyond", _of(positions="rotary"), _of(positions="learned"), "beyond"),
    RunComparison("heads", _of(n_heads=4), _of(n_heads=1), "free"),
    RunComparison("swiglu", _of(ffn="swiglu", d_ff=64), _of(ffn="gelu", d_ff=96), "loss"),
    RunComparison("rmsnorm", _of(norm="layernorm"), _of(norm="rmsnorm"), "loss"),
    RunComparison("tying", _of(), _of(tie_embeddings=False), "loss"),
    RunComparison("no_positions", _of(), _of(positions="none"), "free"),
)
"""Each is as short as possible for a clear answer: six runs of 200 steps."""
