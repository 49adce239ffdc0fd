"""The shipped twins: what training without the causal mask gains, and what it costs."""

import pytest

from explorer.exhibits.masks.twins import CHEAT, RIGHT, twins
from explorer.library import open_model
from explorer.runs.trace import trace


@pytest.mark.parametrize("text", ["I like dogs.", "He is a teacher.", "Can you help me?"])
def test_the_cheat_reads_better_and_writes_worse(text: str) -> None:
    right, cheat = twins(open_model(RIGHT), open_model(CHEAT), text)
    assert cheat.loss < 0.1 < right.loss
    assert len(right.writes) > 2
    assert len(cheat.writes) < len(right.writes)


def test_the_deep_twin_with_post_norm_has_learned() -> None:
    """It is shown beside the other placements; with their schedule it repeats one word."""
    loaded = open_model("twin-deep-post")
    assert trace(loaded, "Tom is not here.").output == "汤姆不在这里。"
    assert trace(loaded, "I love you.").output != trace(loaded, "She likes dogs.").output
