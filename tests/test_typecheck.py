"""The checks of shapes are in force, wherever the tests are started from."""

import pytest
import torch
from jaxtyping import TypeCheckError
from typecheck import shaped_modules, unchecked

from models.attention import attend


def test_a_wrong_shape_is_caught() -> None:
    q = torch.ones(1, 2, 3, 4)
    with pytest.raises(TypeCheckError):
        attend(q, q, torch.ones(1, 2, 5, 4))  # three keys, five values


def test_checks_pause_only_inside() -> None:
    q, v = torch.ones(1, 2, 3, 4), torch.ones(1, 2, 5, 4)
    with pytest.raises(RuntimeError, match="Expected size") as caught, unchecked():
        attend(q, q, v)
    assert not isinstance(caught.value, TypeCheckError)
    with pytest.raises(TypeCheckError):
        attend(q, q, v)


def test_the_core_and_the_analyses_are_checked() -> None:
    modules = shaped_modules()
    assert {"models.attention", "models.transformer", "explorer.analysis.heads.rollout"} <= set(
        modules
    )
    assert len(modules) > 40
