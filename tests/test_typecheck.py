"""The checks of shapes are in force, wherever the tests are started from."""

import jaxtyping
import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor
from typecheck import CALLS, begin, check, unchecked

from models.attention import attend

checked = jaxtyping.jaxtyped(typechecker=check)  # as in every module of shaped_modules


def test_a_wrong_shape_is_caught_but_where_checks_pause():
    q, v = torch.ones(1, 2, 3, 4), torch.ones(1, 2, 5, 4)  # three keys, five values
    with pytest.raises(RuntimeError, match="Expected size") as caught, unchecked():
        attend(q, q, v)
    assert not isinstance(caught.value, TypeCheckError)
    with pytest.raises(TypeCheckError):
        attend(q, q, v)


def test_an_output_shares_the_axes_of_the_arguments_in_the_first_calls_of_each_file():
    @checked
    def cut(x: Float[Tensor, "rows columns"], n: int) -> Float[Tensor, "rows columns"]:
        return x[:n]

    assert cut(torch.ones(3, 4), 3).shape == (3, 4)
    assert cut(torch.ones(2, 4), n=5).shape == (2, 4)  # another call, other sizes
    with pytest.raises(TypeCheckError, match="rows columns"):
        cut(torch.ones(3, 4), 2)
    with pytest.raises(TypeCheckError, match="parameter n"):
        cut(torch.ones(3, 4), 2.5)

    for file in ("a.py", "b.py"):
        begin(file)
        for _ in range(CALLS):
            with pytest.raises(TypeCheckError):
                cut(torch.ones(3, 4), 2)
        assert cut(torch.ones(3, 4), 2).shape == (2, 4)
    begin("b.py", CALLS + 2)  # as `--all-shapes` does
    with pytest.raises(TypeCheckError):
        cut(torch.ones(3, 4), 2)
