"""For tests of your own models: `from explorer.testing import assert_masks`."""

from collections.abc import Sequence
from typing import Any

from explorer.notebook.certify import certify


def assert_masks(
    forward: Any,
    src: Sequence[int] | None,
    tgt: Sequence[int],
    pad_id: int | None = 0,
    **options: Any,
) -> None:
    """Raise AssertionError with the report unless the masks of `forward` are right.

    Arguments and other errors are those of `certify`.
    """
    result = certify(forward, src, tgt, pad_id, **options)
    if not result.passed:
        raise AssertionError("\n" + result.report())
