"""A further family and a further kind of positions, added as ARCHITECTURE.md's table says.

Both are thrown away after the test. Nothing but `models` is told of them, and the words of the new
positions; every page opens. The translator among them has a vocabulary for each language.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from torch import nn

from explorer import library, text
from explorer.pages import PAGES
from models import config
from models.blocks import Block
from models.positions import POSITIONS, Placement, Positions
from models.rows import Rows, Tokens, Valid
from models.transformer import FAMILIES, DecoderOnly, Model, Stack


class Fading(Positions):
    """A key loses the logarithm of its distance (Chi et al. 2022, with fixed parameters)."""

    acts = "biases"

    def place(self, queries, keys):
        distances = (keys[:, None, None, :] - queries[:, None, :, None]).abs()
        return Placement(bias=-distances.double().log1p().expand(-1, self.config.n_heads, -1, -1))


class Tower(Model):
    """A language model whose only stack has a name of its own, which ends every text it reads."""

    reads = ("tgt",)
    surrounded: ClassVar = {"tgt": (True, True)}

    def __init__(self, config: config.ModelConfig) -> None:
        super().__init__()
        embed = nn.Embedding(config.vocab_size, config.d_model)
        self.tower = Stack(config, Block, config.n_layers, embed, causal=True)
        self.complete(config)

    @property
    def last_stack(self) -> Stack:
        return self.tower

    def begin(self, given: Tokens, valid: Valid | None = None) -> Rows:
        return DecoderOnly.begin(self, given, valid)


@pytest.fixture(scope="module")
def shelf_of_added(save_small, tmp_path_factory) -> Iterator[Path]:
    shelf = tmp_path_factory.mktemp("added")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(POSITIONS, "fading", Fading)
        patch.setitem(FAMILIES, "tower", Tower)
        patch.setitem(config.CHOICES, "family", tuple(FAMILIES))
        for lang in text.LANGUAGES:
            patch.setitem(text.words(lang), "positions.model_fading", "Fading positions.")
        save_small(shelf / "tower", family="tower", positions="fading")
        save_small(shelf / "en-zh", positions="fading", apart=True)
        yield shelf


@pytest.mark.parametrize(
    ("page", "model"),
    [
        pytest.param(page.name, model, marks=() if at % 4 == turn else pytest.mark.sweep)
        for at, page in enumerate(PAGES)
        for turn, model in enumerate(("tower", "en-zh"))
    ],
)
def test_every_page_opens_for_what_was_added(shelf_of_added, open_page, page, model, monkeypatch):
    monkeypatch.setattr(library, "CHECKPOINTS", shelf_of_added)
    at = open_page(page, model=model, text="She reads a book every morning.")
    assert [each.value for each in at.error] == []
