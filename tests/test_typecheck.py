"""The checks of shapes are in force, wherever the tests are started from."""

import jaxtyping
import pytest
import torch
from jaxtyping import TypeCheckError
from typecheck import check, unchecked

from models.attention import attend

checked = jaxtyping.jaxtyped(typechecker=check)  # as in every module of shaped_modules


def test_a_wrong_shape_is_caught_but_where_checks_pause():
    q, v = torch.ones(1, 2, 3, 4), torch.ones(1, 2, 5, 4)  # three keys, five values
    with pytest.raises(RuntimeError, match="Expected size") as caught, unchecked():
        attend(q, q, v)
    assert not isinstance(caught.value, TypeCheckError)
    with pytest.raises(TypeCheckError):
        attend(q, q, v)
