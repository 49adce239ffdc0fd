"""For tests of your own models: `from explorer.testing import assert_masks`."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from explorer.notebook.certify import certify


def assert_masks(
    forward: Any,
    src: Sequence[int] | Tensor | None,
    tgt: Sequence[int] | Tensor | None = None,
    pad_id: int | None = 0,
    **options: Any,
) -> None:
    """Raise AssertionError with the report unless the masks of `forward` are right.

    A model of one text is tested by `assert_masks(model, ids)`. Otherwise, it takes and raises what
    `certify` does.
    """
    texts: tuple[Any, Any] = (None, src) if tgt is None else (src, tgt)
    result = certify(forward, *texts, pad_id=pad_id, **options)
    if not result.passed:
        raise AssertionError("\n" + result.report())
