"""What Start's picture is sent, and what it is trusted to send back."""

from typing import Any

import numpy as np
import pytest
from payloads import unpack

from explorer.components.start import (
    HeadDetails,
    Heads,
    Moment,
    Picked,
    Thread,
    pack_start,
    pick_of,
    signed,
)
from explorer.text import family

WORDS = family("components.start", lang="en")
HEADS = Heads(
    title="self-attention",
    role="decoder",
    cells=np.array([[[1.0, 0.0], [0.25, 0.75]]]),
    allowed=np.array([[[True, False], [True, True]]]),
    rows=np.array([[[1.0, 0.0]], [[0.25, 0.75]]]),
    there=np.array([[True, False], [True, True]]),
)
THREAD = Thread("tgt", "text", ("a", "b"), 1, None, None, False, (("Block 1", (HEADS,)),))
MOMENTS = (Moment(0, ("b", "c"), (0.7, 0.2), 0, "b"), Moment(1, ("c",), (0.9,), 0, "bc"))
COUNTS = (((1,),), ((2, 3),))


def packed(**changes: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    usual: dict[str, Any] = {
        "lanes": (THREAD,),
        "moments": MOMENTS,
        "masks": (("trained", "as trained"),),
        "mask": "trained",
        "diff": (),
        "door": "",
        "opened": None,
        "links": {},
        "said": "bc",
        "prompt": "",
        "words": WORDS,
    }
    usual |= changes
    return unpack(pack_start(usual.pop("lanes"), usual.pop("moments"), **usual))


def test_weights_travel_as_roots_and_blocked_cells_apart() -> None:
    head, arrays = packed()
    # 254 sqrt(1), blocked; 254 sqrt(.25), 254 sqrt(.75) = 219.97
    assert arrays["cells0.0.0"].tolist() == [[[254, 255], [127, 220]]]
    assert arrays["rows0.0.0"].tolist() == [[[254, 255]], [[127, 220]]]
    assert head["lanes"][0]["given"] == 1
    assert [moment["said"] for moment in head["moments"]] == ["b", "bc"]


def test_vectors_travel_with_zero_in_the_middle() -> None:
    assert signed(np.array([[-2.0, 0.0, 1.0, 2.0]])).tolist() == [[0, 127, 191, 254]]
    assert signed(np.zeros((1, 2))).tolist() == [[127, 127]]
    assert signed(np.array([[np.nan, np.inf, 1.0]])).tolist() == [[127, 127, 254]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"moments": (Moment(2), Moment(0))}, "thread is 2, but there are 2 threads"),
        ({"moments": (Moment(0, ("a",), (1.0,), 1),) * 2}, "chosen is 1, but there are 1"),
        ({"moments": MOMENTS[:1]}, "rows has 2 entries, but there are 1 steps"),
        (
            {"lanes": (Thread("tgt", "", ("a",), 1, None, None, False, THREAD.blocks),)},
            "cells has 2 entries, but there are 1 threads",
        ),
        (
            {"lanes": (Thread("tgt", "", ("a", "b"), 1, np.ones((3, 4)), None, False, ()),)},
            "embedded has 3 entries, but there are 2 threads",
        ),
        ({"words": {}}, "words lack"),
    ],
)
def test_sizes_that_disagree_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        packed(**changes)


def test_an_opened_head_of_another_size_is_refused() -> None:
    square = np.zeros((2, 2))
    opened = HeadDetails((0, 0, 0), 0, ("a", "b"), ("a",), {}, square, square > 0, square, (2, 2))
    with pytest.raises(ValueError, match="scores have shape"):
        packed(opened=opened)


@pytest.mark.parametrize(
    ("sent", "picked"),
    [
        ({"door": "waves"}, Picked(door="waves")),
        ({"door": ""}, Picked(door="")),
        ({"door": "cellar"}, Picked()),
        ({"mask": "causal"}, Picked(mask="causal")),
        ({"mask": "none of these"}, Picked()),
        ({"head": [1, 0, 1, 2]}, Picked(head=(1, 0, 1, 2))),
        ({"head": [1, 0, 1, 3]}, Picked()),  # of a model with more heads
        ({"head": [2, 0, 0, 0]}, Picked()),
        ({"head": [1, 0, True, 0]}, Picked()),
        ({"head": "1010"}, Picked()),
        ({"link": "heads?text=a"}, Picked(link="heads?text=a")),
        ({"link": 3}, Picked()),
        (["door", "waves"], Picked()),
        (None, Picked()),
    ],
)
def test_what_the_browser_sent_is_checked(sent: object, picked: Picked) -> None:
    assert pick_of(sent, COUNTS, ("trained", "causal")) == picked
