"""On a GPU, a pretended one where there is none, every part of every page opens.

Left out are the claims about models that are made for them and never go to a device.
"""

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from designs import VISITS
from pretended import gpu

from explorer.analysis.heads import ablation
from explorer.engine import caching
from explorer.engine.caching import Store, budget
from models.foreign.placing import DEVICE_VARIABLE


@pytest.mark.sweep
@pytest.mark.parametrize("model", ["en-zh", "stories"])
@pytest.mark.parametrize("about", sorted(VISITS.keys() - {"fixed", "trained"}))
def test_no_frame_breaks(
    broken_frames: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, model: str, about: str
) -> None:
    monkeypatch.setattr(caching, "STORE", Store(budget()))
    monkeypatch.setenv(DEVICE_VARIABLE, "cuda")
    with nullcontext() if torch.cuda.is_available() else gpu():
        ablation.pool.cache_clear()  # a thread that is kept was started elsewhere
        try:
            assert not broken_frames(VISITS[about], model)
        finally:
            ablation.pool.cache_clear()
