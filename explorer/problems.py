"""What the explorer refuses. The words are in the text files, at `problems.KEY`."""

from functools import partial

from models.refusals import Refusal

Value = str | int | float | Refusal
"""The values of a problem: numbers and names; if a model does not open, the library's reason."""


class InputProblem(ValueError):  # noqa: N818 (the user's problem, not an error of ours)
    """Invalid input from the user; `key` says what is wrong, `values` are limits, lengths, names.

    The caller that shows it fills them into the words in the user's language.
    """

    def __init__(self, key: str, **values: Value) -> None:
        super().__init__(f"{key}: {values}" if values else key)
        self.key = key
        self.values = values

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), self.key, **self.values), ()
