"""A head's name follows from its numbers, on both sides of every threshold."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from explorer.analysis.atlas.names import Kind, Name, alike_by_chance, name_of
from explorer.analysis.atlas.store import Text
from explorer.analysis.atlas.sums import MEASURES
from explorer.analysis.circuits.chance import copy_of, shuffle
from explorer.engine.jobs import walked
from explorer.exhibits.atlas.measured import measured
from explorer.library import open_model
from models.hooks import Role


def named(role: Role, rows: dict[str, int] | None = None, **shares: float) -> Name:
    """The name of a head with these shares, 0 elsewhere; every measure in 1,000 rows."""
    share = np.array([shares.get(name, 0.0) for name in MEASURES])
    count = np.array([(rows or {}).get(name, 1000) for name in MEASURES])
    return name_of(role, share, count, np.full(len(MEASURES), 0.2))


@pytest.mark.parametrize("kind", ["previous", "same", "next", "first", "last", "spread"])
def test_half_of_the_rows_make_a_name(kind: str) -> None:
    assert named("encoder", **{kind: 0.5}).kind == kind
    assert named("encoder", **{kind: 0.4999}) == Name("mixed", kind, 0.4999)


def test_of_two_the_larger_share_names() -> None:
    assert named("decoder", previous=0.93, first=0.6) == Name("previous", "previous", 0.93)
    assert named("decoder", previous=0.6, first=0.93).kind == "first"


def test_alignment_needs_less_and_only_cross_attention_has_it() -> None:
    assert named("cross", alignment=0.4, first=0.3).kind == "alignment"
    assert named("cross", alignment=0.399, first=0.3) == Name("mixed", "first", 0.3)
    assert named("decoder", alignment=0.9).kind == "mixed"
    assert named("cross", previous=0.9, first=0.1) == Name("mixed", "first", 0.1)


@pytest.mark.parametrize("kind", ["induction", "repeat", "punctuation", "rare"])
def test_what_only_some_rows_have_names_where_nothing_else_does(kind: str) -> None:
    assert named("decoder", **{kind: 0.9}).kind == kind
    assert named("decoder", previous=0.5, **{kind: 0.9}).kind == "previous"
    assert named("decoder", {kind: 50}, **{kind: 0.9}).kind == kind
    assert named("decoder", {kind: 49}, **{kind: 0.9}).kind == "mixed"


def test_where_most_words_are_rare_looking_at_one_is_no_trait() -> None:
    chance = np.zeros(len(MEASURES))
    share, rows = chance.copy(), np.full(len(MEASURES), 1000)
    share[MEASURES.index("rare")] = 0.6
    chance[MEASURES.index("rare")] = 0.6 / 1.5
    assert name_of("encoder", share, rows, chance).kind == "rare"
    chance[MEASURES.index("rare")] = 0.61 / 1.5
    assert name_of("encoder", share, rows, chance).kind == "mixed"


def test_names_in_common_by_chance() -> None:
    """Two spread heads and a mixed one: of six orders, two keep all three, four keep one."""
    one: list[Kind] = ["spread", "spread", "mixed"]
    expected = (2 * 3 + 4 * 1) / 6
    pairs: list[tuple[Role, Kind, Kind]] = [("decoder", each, each) for each in one]
    assert alike_by_chance(pairs) == pytest.approx(expected)
    apart: list[tuple[Role, Kind, Kind]] = [
        ("cross", "spread", "spread"),
        ("encoder", "first", "spread"),
    ]
    assert alike_by_chance(apart) == 1, "only heads of the same role count"


@pytest.mark.parametrize("name", ["stories", "masked-en"])
def test_with_random_weights_most_heads_spread_and_a_few_have_a_key(name: str) -> None:
    """As the page says of them; of trained models it says how many have a key."""
    loaded = open_model(name)
    copy = copy_of(loaded.model)
    shuffle(copy, torch.Generator().manual_seed(1))
    sentences = ("I like the old book.", "She went to the park.", "Once upon a time, it was cold.")
    steps = measured(replace(loaded, model=copy), [*map(Text, sentences)], ablate=False)
    found = walked(steps)
    kinds = Counter(each.kind for each in found.names)
    others = kinds.total() - kinds["spread"] - kinds["mixed"]
    assert kinds["spread"] > 0.6 * kinds.total()
    assert others <= 0.3 * kinds.total()


def test_a_head_without_a_single_row_has_a_name_too() -> None:
    nothing = np.full(len(MEASURES), np.nan)
    rows = np.zeros(len(MEASURES), np.int64)
    assert name_of("encoder", nothing, rows, nothing) == Name("mixed", "first", 0.0)
