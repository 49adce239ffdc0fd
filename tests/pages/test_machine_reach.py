"""The Model page: the gradient of a recurrent net and of attention, and what is said of it."""

import numpy as np
import pytest
from shown import Open, everything, reading, words_of
from streamlit.testing.v1 import AppTest

from explorer.exhibits.machine import reach
from explorer.exhibits.machine.reach import Kind, Reach
from explorer.text import LANGUAGES, t


def net_rows(at: AppTest, lang: str = "en") -> list[str]:
    """The table of the gradients: a line for attention and both recurrent nets."""
    name = t("reach.nets.orthogonal", lang=lang)
    (rows,) = (words_of(each) for each in at.markdown if f"| {name}" in each.value)
    return rows.splitlines()[2:]


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("model", ["en-zh", "writer", "headless"])
def test_the_gradient_is_drawn_by_distance(open_page: Open, lang: str, model: str) -> None:
    at = open_page("machine", lang=lang, model=model, text="I like you.")
    assert not at.exception
    assert t("reach.repeated", lang=lang, least=12) in everything(at)
    factors = [float(line.split("**")[1]) for line in net_rows(at, lang)]
    assert factors[0] > 0.9 > factors[2] > factors[1]


@pytest.mark.parametrize(
    ("factor", "attention", "said"),
    [
        (0.3, 1.0, "vanishes along the path. At the first token, 11 tokens back"),
        (0.8, 1.0, "less than in attention (1.00) in every seed"),
        (1.1, 1.0, "do not distinguish the two"),
        (0.3, 0.3, "do not distinguish the two"),
    ],
)
def test_the_gradients_decide_what_is_said_of_them(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, factor: float, attention: float, said: str
) -> None:
    distance = np.arange(12)
    rates: dict[Kind, float] = {"attention": attention, "recurrent": factor, "orthogonal": factor}
    world = tuple(Reach(kind, np.stack([rate**distance] * 2)) for kind, rate in rates.items())
    monkeypatch.setattr(reach, "reaches", lambda x: world)
    at = open_page("machine", text="I like you.")
    assert reading(at, said)
    assert net_rows(at)[1].count(f"{factor:.2f}") == 3  # the median, the least and the most
