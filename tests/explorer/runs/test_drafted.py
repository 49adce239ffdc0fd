"""A draft makes a translation under edits faster, and never another one."""

from collections.abc import Sequence

import pytest
import torch

from explorer.library import LoadedModel
from explorer.runs.drafted import BEYOND, first_seen
from explorer.runs.edits import CellEdit, Edit, HeadOff, MaskSize, MaskSwitch
from explorer.runs.generation import translate, translate_all
from explorer.runs.inputs import given_tokens

TEXT = "The cat ran."
EDITS: dict[str, tuple[Edit, ...]] = {
    "head": (HeadOff("decoder.blocks.0.cross_attn", 1), HeadOff("encoder.blocks.0.attn", 0)),
    "causal": (MaskSwitch("causal", False),),
    "prefix": (MaskSize("prefix", 4),),
    "window": (MaskSize("window", 2),),
    "future": (CellEdit("decoder", None, 1, 4, True), CellEdit("decoder", 0, 2, 6, True)),
    "shut": (CellEdit("decoder", None, 3, 0, False), CellEdit("cross", 1, 2, 0, False)),
}


def tokens_after(draft: Sequence[int], edits: Sequence[Edit], loaded: LoadedModel) -> list[int]:
    return translate(loaded, given_tokens(loaded, TEXT), edits, 1, draft)[0]


@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
def test_whatever_the_draft_says_the_same_is_written(translator, edits) -> None:
    step_by_step = tokens_after((), edits, translator)
    assert len(step_by_step) > 8
    plain = translate(translator, given_tokens(translator, TEXT))[0]
    half = [*step_by_step[:5], *plain]
    for draft in (plain, step_by_step, half, [5], [7] * 99):
        assert tokens_after(draft, edits, translator) == step_by_step


def test_a_draft_that_is_right_is_read_in_one_pass(translator, monkeypatch) -> None:
    stack, lengths = translator.model.last_stack, []
    run = stack.run

    def counted(rows, *more):  # type: ignore[no-untyped-def]
        lengths.append(rows.tgt.shape[1])
        return run(rows, *more)

    right = tokens_after((), EDITS["head"], translator)
    monkeypatch.setattr(stack, "run", counted)
    assert tokens_after(right, EDITS["head"], translator) == right
    assert len(lengths) == 1
    lengths.clear()
    tokens_after(right, EDITS["causal"], translator)
    assert lengths == list(range(1, len(right) + 1))  # each token changes all before it


def test_only_a_place_that_an_earlier_query_sees_ends_what_is_read_together(translator) -> None:
    sites = translator.sites
    for name, query, place in (
        ("head", 0, BEYOND),
        ("shut", 0, BEYOND),
        ("window", 0, BEYOND),
        ("causal", 5, 6),
        ("prefix", 2, 3),  # four tokens see each other, the last of them at place 3
        ("prefix", 3, BEYOND),
        ("future", 0, 4),
        ("future", 4, 6),
        ("future", 6, BEYOND),
    ):
        assert first_seen(sites, EDITS[name], query) == place, (name, query)
    past = (CellEdit("decoder", None, 4, 1, True),)
    assert first_seen(sites, past, 0) == BEYOND


def test_a_model_without_probabilities_is_refused(translator, monkeypatch) -> None:
    lost = lambda x: torch.full((*x.shape[:2], 3), torch.nan)  # noqa: E731
    monkeypatch.setattr(translator.model, "logits_of", lost)
    with pytest.raises(ValueError, match="no probabilities"):
        tokens_after([5, 6], EDITS["head"], translator)


def test_sentences_in_one_batch_are_translated_as_each_alone(translator: LoadedModel) -> None:
    sources = [given_tokens(translator, text) for text in (TEXT, "Dogs.", "I like the old house.")]
    assert translate_all(translator, sources) == [translate(translator, each) for each in sources]
    alike, edits = [*sources[:1], sources[0][1::-1] + sources[0][2:]], EDITS["future"]
    alone = [translate(translator, each, edits) for each in alike]
    assert translate_all(translator, alike, edits) == alone != translate_all(translator, alike)
