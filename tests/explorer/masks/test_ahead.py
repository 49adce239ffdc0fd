"""Looking ahead: none with the causal mask, and without it the sums that the patterns give."""

from dataclasses import replace

import numpy as np
import pytest

from explorer.exhibits.masks.causal import ahead
from explorer.library import LoadedModel, open_model
from explorer.runs.edits import CellEdit, MaskSize, MaskSwitch
from explorer.runs.trace import trace

OFF = (MaskSwitch("causal", False),)


@pytest.fixture(scope="module")
def twin() -> LoadedModel:
    return open_model("twin-right")


def test_with_the_mask_nothing_is_ahead_and_the_last_row_sees_everything(twin: LoadedModel) -> None:
    found = ahead(trace(twin, "I love you.", pads=2), "decoder")
    assert found is not None
    assert found.share == found.most == 0
    assert found.seen == found.real


def test_without_it_shares_are_those_of_the_patterns(twin: LoadedModel) -> None:
    run = trace(twin, "I love you.", edits=OFF, pads=2)
    found = ahead(run, "decoder")
    assert found is not None
    real = found.real
    assert real == int(run.tgt_valid.sum())
    by_hand = {}
    for site in run.sites_of("decoder"):
        for head, pattern in enumerate(run.pattern(site.name)):
            rows = [pattern[i, i + 1 : real].sum() for i in range(real - 1)]
            by_hand[site.layer, head] = float(np.mean(rows))
    assert found.share == pytest.approx(np.mean(list(by_hand.values())), abs=1e-6)
    assert found.most == pytest.approx(max(by_hand.values()), abs=1e-6)
    assert (found.layer, found.head) == max(by_hand, key=by_hand.__getitem__)
    assert found.seen == real  # the newest row is none the wiser


def test_another_rule_may_narrow_the_last_row(twin: LoadedModel) -> None:
    found = ahead(trace(twin, "I love you.", edits=(*OFF, MaskSize("window", 2))), "decoder")
    assert found is not None
    assert found.seen == 2 < found.real


def test_a_rule_in_one_head_narrows_the_last_row(twin: LoadedModel) -> None:
    """The first head of the first layer sees everything; a sentence about all heads asks all."""
    run = trace(twin, "I love you.")
    shut = CellEdit(run.sites_of("decoder")[-1].name, 1, int(run.tgt_valid.sum()) - 1, 0, False)
    found = ahead(trace(twin, "I love you.", edits=(*OFF, shut)), "decoder")
    assert found is not None
    assert found.seen == found.real - 1


def test_one_token_has_none_after_it(twin: LoadedModel) -> None:
    run = trace(twin, "I love you.")
    alone = replace(run, tgt_valid=np.arange(len(run.tgt_valid)) < 1)
    assert ahead(alone, "decoder") is None
