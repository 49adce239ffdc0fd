"""certify() of callables whose masks are right, but whose output loses tokens."""

import pytest
import torch
from plain_transformers import PlainTranslator, masked_softmax
from torch import Tensor

import explorer as hl
from explorer.testing import assert_masks

SRC, TGT = [7, 5, 9, 11, 13, 6, 2], [1, 8, 10, 4, 12]
LONG = [1 + 7 * i % 18 for i in range(60)]


def _windowed(scores: Tensor, keep: Tensor) -> Tensor:
    n = scores.shape[-1]
    return masked_softmax(scores, keep & torch.ones(n, n).triu(-1).bool())  # two tokens


def _moved_down(src: Tensor, tgt: Tensor) -> Tensor:
    """The logits of each row in the next one: the row of the last token is lost."""
    logits = PlainTranslator().eval()(src, tgt)
    return torch.cat([logits[:, :1], logits[:, :-1]], 1)


CUT = {
    "window": (PlainTranslator(own=_windowed).eval(), (3, 0)),  # two layers reach two tokens
    "rows moved": (_moved_down, (1, 1)),
    "source cut": (lambda src, tgt: PlainTranslator().eval()(src[:, -4:], tgt), (4, 2)),
}
"""Models that lose tokens, and the output and the changed token that show it."""


@pytest.mark.parametrize("fault", CUT)
def test_a_token_that_reaches_nothing_is_found_without_weights(fault: str) -> None:
    forward, place = CUT[fault]
    result = hl.certify(forward, SRC, TGT, pad_id=None, capture=False)
    assert [finding.name for finding in result.broken] == ["needle"]
    (where,) = (finding.where for finding in result.broken)
    assert where is not None
    assert (where.query, where.key) == place
    assert hl.certify(forward, SRC, TGT, pad_id=None, without=["needle", "open_cells"]).passed


def test_a_window_that_is_named_is_no_fault() -> None:
    assert_masks(PlainTranslator(own=_windowed).eval(), SRC, TGT, window=2)
    assert_masks(PlainTranslator(own=_windowed).eval(), SRC, TGT, window=2, capture=False)


def test_a_change_that_fades_with_the_distance_is_not_judged() -> None:
    """Neither a recurrence nor a steep bias cuts anything off."""
    embed, recurrent = torch.nn.Embedding(20, 16), torch.nn.LSTM(16, 20, batch_first=True)
    fading = hl.certify(lambda ids: recurrent(embed(ids))[0], None, LONG, pad_id=None)

    def steep(scores: Tensor, keep: Tensor) -> Tensor:
        n = torch.arange(scores.shape[-1])
        return masked_softmax(scores - 8 * (n[:, None] - n).abs(), keep)

    steeper = hl.certify(PlainTranslator(own=steep).eval(), SRC, LONG)
    for result in (fading, steeper):
        assert result.passed, result.report()
        assert result.left_out["needle"] == "too_weak"
