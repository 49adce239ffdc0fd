"""On a pretended GPU every part of every page says what it says on the CPU."""

import re
from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
import torch
from cores import core
from designs import VISITS
from pretended import gpu
from shown import WHOLE, everything
from torch.nn import functional as F

from explorer.analysis.cases import design
from explorer.analysis.heads import ablation
from explorer.engine import caching
from explorer.engine.caching import Store, budget
from explorer.library import open_model
from explorer.pages import PAGES
from explorer.runs.passes import walked
from explorer.runs.trace import trace
from models.foreign.placing import DEVICE_VARIABLE

SHOWING = {"card", "training", "exercises", "tour", "atlas"}
"""Pages that only show what others compute: they are asked in the sweep."""
MODELS = ("en-zh", "writer", "reader", "headless")
WHOLE_PAGES = [(page.name, WHOLE.get(page.name, {})) for page in PAGES]
PARTS = [
    visit
    for about, visits in VISITS.items()
    if about not in ("fixed", "trained")  # claims about models of their own use no device
    for visit in visits
]
TINY = re.compile(r"([\d.]+ · )?10⁻(¹?[⁶⁷⁸⁹]|¹[⁰-⁹])|\*\*\d+\*\* ms")


@pytest.fixture(autouse=True)
def _threads_of_its_own():
    """A thread that is kept knows of the pretended GPU where it was started there."""
    ablation.pool.cache_clear()
    yield
    ablation.pool.cache_clear()


@pytest.mark.parametrize(
    ("visit", "model"),
    core(
        [*product(WHOLE_PAGES, MODELS), *product(PARTS, MODELS[:2])],
        [(visit, "en-zh") for visit in WHOLE_PAGES if visit[0] not in SHOWING],
    ),
)
def test_a_page_says_the_same(open_page, monkeypatch, visit, model):
    page, asked = visit
    with gpu(), pytest.MonkeyPatch.context() as patch:
        patch.setenv(DEVICE_VARIABLE, "cuda")
        there = open_page(page, model=model, **asked)
    ablation.pool.cache_clear()
    monkeypatch.setattr(caching, "STORE", Store(budget()))
    assert settled(there) == settled(open_page(page, model=model, **asked))


def test_exchanged_parts_are_made_where_the_model_computes(monkeypatch, shelf):
    """Options of the page Model that make parts, as on the CPU; an added norm among them."""
    folder, found = shelf / "en-zh", []
    made = {"final", "positions", "tying"}
    some = tuple(option for option in design.every_option() if option.choice in made)
    monkeypatch.setattr(design, "every_option", lambda: some)
    for device in ("cpu", "cuda"):
        monkeypatch.setenv(DEVICE_VARIABLE, device)
        with gpu() if device == "cuda" else nullcontext():
            loaded = open_model(folder)
            found.append(walked(design.design(loaded, trace(loaded, "I love you."))).rows)
    assert {f"swaps.options.final.{name}" for name in ("with", "without")} < {
        e.of for e in found[0]
    }
    for here, there in zip(*found, strict=True):
        assert (here.name, here.of, here.outcomes) == (there.name, there.of, there.outcomes)
        np.testing.assert_allclose(there.values[0], here.values[0], atol=1e-4)


def settled(at):
    """What a page says, times and rounding aside: matrices that lie otherwise add up otherwise."""
    return TINY.sub("tiny", everything(at))


def _there() -> torch.Tensor:
    return torch.ones(3, 4, device="cuda")


REFUSED = {
    "a sum": lambda: _there() + torch.ones(3, 4),
    "a product": lambda: _there() @ torch.ones(4, 3),
    "a row put in": lambda: _there().__setitem__(0, torch.ones(4)),
    "joined": lambda: torch.cat((_there(), torch.ones(3, 4))),
    "attention": lambda: F.scaled_dot_product_attention(_there(), _there(), torch.ones(3, 4)),
    "an index there": lambda: torch.ones(3, 4)[torch.zeros(1, dtype=torch.long, device="cuda")],
}


def test_devices_are_not_mixed_and_an_array_is_made_on_the_cpu_only():
    with gpu():
        for mixed in REFUSED.values():
            with pytest.raises(RuntimeError, match="on the GPU"):
                mixed()
        with pytest.raises(TypeError, match="cannot become an array"):
            _there().numpy()
