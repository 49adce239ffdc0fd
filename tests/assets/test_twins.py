"""The shipped twins: what training without the causal mask gains, and what it costs."""

import pytest

from explorer.exhibits.masks.twins import CHEAT, RIGHT, twins
from explorer.library import open_model


@pytest.mark.parametrize("text", ["I like dogs.", "He is a teacher.", "Can you help me?"])
def test_the_cheat_reads_better_and_writes_worse(text: str) -> None:
    right, cheat = twins(open_model(RIGHT), open_model(CHEAT), text)
    assert cheat.loss < 0.1 < right.loss
    assert len(right.writes) > 2
    assert len(cheat.writes) < len(right.writes)
