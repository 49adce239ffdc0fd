"""The Pitfalls page: faults that need padding on the left, in models that they concern or not."""

import base64

import numpy as np
import pytest
from shown import Open, everything, figure

from explorer.text import t


@pytest.mark.parametrize(
    ("case", "model", "lacks"),
    [
        ("left_positions", "en-zh", ""),
        ("left_positions", "writer", ""),
        ("left_positions", "reader", "added"),  # ALiBi: distances only
        ("mask_replaced", "en-zh", ""),
        ("mask_replaced", "writer", ""),
        ("mask_replaced", "reader", "causal"),
    ],
)
def test_padding_on_the_left_harms_whom_it_concerns(
    open_page: Open, case: str, model: str, lacks: str
) -> None:
    at = open_page("clinic", case=case, model=model, text="I like you.")
    assert not at.exception
    words = everything(at)
    assert t("clinic.unchanged", lang="en") not in words
    assert ("PADs on the left**." in words) == (not lacks)
    if lacks:
        assert t(f"clinic.absent.{lacks}", lang="en") in words
    else:
        drawn = figure(at, len(at.get("plotly_chart")) - 1)["data"]
        healthy, ill = (
            np.frombuffer(base64.b64decode(each["y"]["bdata"]), each["y"]["dtype"])
            for each in drawn
        )
        assert len(healthy) > 2
        assert abs(ill[0] - healthy[0]) < 1e-4  # without padding they agree
        assert np.abs(ill - healthy).max() > 1e-4
