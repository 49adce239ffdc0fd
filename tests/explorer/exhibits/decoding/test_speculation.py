"""Speculative decoding of a text: greedy's words, counted passes, and real shared vocabularies."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from explorer.exhibits.decoding.draft import drafts, layers_of
from explorer.exhibits.decoding.spared import multiply_adds
from explorer.exhibits.decoding.speculation import adds, agreement, passes, speculation
from explorer.library import LoadedModel, open_model, same_vocabulary
from explorer.runs.inputs import given_tokens
from explorer.runs.speculative import Round, first_layers, speculate
from models.hooks import visiting

TEXT = "The cat ran."
Tiny = Callable[..., LoadedModel]


def test_passes_by_hand() -> None:
    agree = np.array([True, True, False, True, False, True, True])
    # 0: every token by itself. 2: (0 1 2) (3 4) (5 6 and nothing more): three rounds.
    assert [passes(agree, k) for k in (0, 1, 2, 9)] == [7, 4, 3, 3]
    assert passes(np.ones(8, bool), 3) == 2
    assert passes(np.zeros(3, bool), 3) == 3


def test_the_name_of_the_first_layers() -> None:
    assert layers_of("layers-2") == 2
    assert [layers_of(name) for name in ("twin-right", "layers-", "2", "layers-x")] == [None] * 4


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only"])
@pytest.mark.parametrize("n_drafted", [1, 3])
def test_the_rounds_are_those_that_the_agreement_predicts(
    tiny: Tiny, family: str, n_drafted: int
) -> None:
    loaded = tiny("sure", family=family)
    draft = copy.deepcopy(loaded.model)
    generator = torch.Generator().manual_seed(1)
    for parameter in draft.parameters():  # nearly the same model: right at some places
        parameter += 0.03 * torch.randn(parameter.shape, generator=generator)
    found = speculation(loaded, draft, given_tokens(loaded, TEXT), n_drafted, 24)
    assert found.same
    assert 0 < found.n_accepted < found.n_drafted
    assert len(found.rounds) == passes(found.agree, n_drafted)
    assert found.n_written == len(found.agree)
    shown = [token for each in found.written for token in each]
    output = [token for each in found.rounds for token in each.written]
    assert shown == loaded.str_tokens(output)
    for each, drafted in zip(found.rounds, found.drafted, strict=True):
        assert len(drafted) == len(each.drafted)


def test_a_model_that_drafts_for_itself_is_always_right(translator: LoadedModel) -> None:
    given = given_tokens(translator, TEXT)
    found = speculation(translator, translator.model, given, 4, 20)
    assert found.agree.all()
    assert len(found.rounds) == -(-found.n_written // 5)
    assert agreement(translator.model, torch.tensor([given]), (4, 4, 4)).tolist() != [True] * 3


def test_multiply_adds_by_hand(tiny: Tiny) -> None:
    config, small = tiny("sure", n_layers=3).config, tiny("small").config
    rounds = (Round((5, 6), (5, 7), 1), Round((8,), (8, 9), 1))
    # The model reads 1 + 2, then the 7 and one draft; the draft 1 and 1, then from the 7 on.
    model = multiply_adds(config, 4, 0, 3) + multiply_adds(config, 4, 2, 2)
    draft = sum(multiply_adds(small, 4, past, 1) for past in (0, 1, 2))
    assert adds(config, small, 4, 1, rounds) == (model, draft)
    # All accepted: the draft has not read its own last token yet, and reads it with the next.
    more = (Round((5, 6), (5, 6, 7), 2), Round((8,), (8, 9), 1))
    model = multiply_adds(config, 4, 0, 3) + multiply_adds(config, 4, 3, 2)
    draft = multiply_adds(small, 4, 0, 1) + multiply_adds(small, 4, 1, 1)
    assert adds(config, small, 4, 1, more) == (model, draft + multiply_adds(small, 4, 2, 2))


class Lengths:
    """A visitor that notes how many tokens each pass through one hook point has."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[int] = []

    def wants(self, name: str) -> bool:
        return name == self.name

    def __call__(self, name: str, tensor: Tensor) -> None:
        self.seen.append(tensor.shape[1])


def test_the_passes_of_the_model_are_real_ones(translator: LoadedModel) -> None:
    """The last block is passed by the model alone: once a round, over the draft and one more."""
    given = torch.tensor([given_tokens(translator, TEXT)])
    noted = Lengths("decoder.blocks.1.hook_resid_post")
    with visiting(noted):
        rounds = list(speculate(translator.model, first_layers(translator.model, 1), given, 3, 20))
    assert noted.seen == [len(each.drafted) + 1 for each in rounds]


def test_drafts_share_tokenizer_and_family() -> None:
    """What the shelf offers: twins share one vocabulary, and so do the two translators."""
    assert same_vocabulary("en-zh") == ("zh-en",)
    assert same_vocabulary("stories") == ()
    twins = same_vocabulary("twin-right")
    assert "twin-learned" in twins
    assert "twin-right@200" in twins
    assert "twin-right" not in twins
    assert not [name for name in twins if not name.startswith("twin-")]
    assert "twin-right" in same_vocabulary("twin-right@200")
    assert drafts(open_model("reverse")) == ("layers-1",)


def test_folders_without_a_tokenizer_file_share_nothing(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text('{"vocab_size": 9}')
    assert same_vocabulary("one", tmp_path) == ()


@pytest.mark.parametrize(
    ("name", "draft"),
    [
        ("en-zh", "layers-2"),
        ("twin-right", "twin-right@300"),
        pytest.param("zh-en", "en-zh", marks=pytest.mark.sweep),
        pytest.param("stories", "layers-5", marks=pytest.mark.sweep),
        pytest.param("twin-deep-pre", "twin-learned", marks=pytest.mark.sweep),
    ],
)
def test_shipped_models_write_the_text_of_greedy(name: str, draft: str) -> None:
    loaded = open_model(name)
    kept = layers_of(draft)
    other = first_layers(loaded.model, kept) if kept else open_model(draft).model
    texts = (
        ("她每天早上看书。", "我爱你。")
        if name == "zh-en"
        else ("I love you.", "We were very tired.")
    )
    for text in texts:
        found = speculation(loaded, other, given_tokens(loaded, text), 4, 24)
        assert found.same
        assert len(found.rounds) == passes(found.agree, 4) <= found.n_written
        assert name == "zh-en" or len(found.rounds) < found.n_written
