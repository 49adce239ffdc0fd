"""What a recipe trains on: rows of text, read from a file as it says, or made by a toy task."""

from dataclasses import dataclass
from pathlib import Path
from typing import get_args, no_type_check

from models.training.data import read_pairs, read_texts
from models.training.tasks import MOST_SYMBOLS, Task, task_pairs

Row = tuple[str, str] | str


@no_type_check  # a checker at run time would speak before __post_init__ can say what is wrong
@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which rows. Raises ValueError, naming the field, for an impossible value.

    With a `task` the rows are made, not read: `examples` for training and `valid_examples` others
    to choose by, of `lengths[0]` to `lengths[1]` out of `symbols` letters.
    """

    task: Task | None = None
    examples: int = 20_000
    valid_examples: int = 500
    lengths: tuple[int, int] = (2, 10)
    symbols: int = 20
    reverse: bool = False  # the second column of the file is the source
    longest: int | None = None  # characters: pairs with a longer side are left out
    start: str = ""  # a checkpoint (folder, or shipped one) whose weights and vocabulary begin it;
    # with fewer layers than the recipe's model, it is grown (`recipes/growing.py`)

    def __post_init__(self) -> None:
        if self.task is not None and self.task not in get_args(Task):
            raise ValueError(
                f"task is {self.task!r}: it must be one of {', '.join(get_args(Task))}"
            )
        if not 2 <= self.symbols <= MOST_SYMBOLS:
            raise ValueError(f"symbols is {self.symbols}: it must be 2 to {MOST_SYMBOLS}")
        if not 1 <= self.lengths[0] <= self.lengths[1]:
            raise ValueError(f"lengths is {self.lengths}: they must be at least 1, rising")
        for name in ("examples", "valid_examples", "longest"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: it must be at least 1")


def read_rows(path: Path, config: DataConfig, paired: bool) -> list[Row]:
    """The rows of a file that the recipe wants: pairs (source, target), or texts.

    Raises ValueError when the file holds none, and for a row without a TAB where pairs are wanted.
    """
    rows: list[Row] = []
    if paired:
        for source, target in read_pairs(path):
            if config.longest is None or max(len(source), len(target)) <= config.longest:
                rows.append((target, source) if config.reverse else (source, target))
    else:
        rows.extend(read_texts(path))
    if not rows:
        raise ValueError(f"{path} holds no text that this recipe uses")
    return rows


def make_rows(config: DataConfig, paired: bool, seed: int) -> tuple[list[Row], list[Row]]:
    """A toy task's rows to train on, and others to choose by, none of which is in the first.

    For a decoder-only model question and answer stand in one row. Raises ValueError when the
    recipe names no task, and when the task is too small for that many different rows.
    """
    if config.task is None:
        raise ValueError("this recipe has no task: it needs a file to train on")
    wanted = config.examples + config.valid_examples
    pairs = task_pairs(config.task, wanted, config.lengths, config.symbols, seed)
    rows: list[Row] = [pair if paired else f"{pair[0]} = {pair[1]}" for pair in pairs]
    return rows[: config.examples], rows[config.examples :]
