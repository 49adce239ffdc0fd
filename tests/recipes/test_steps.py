"""The rows that a recipe makes out of those of its file."""

from models.training.corpus import Row
from models.training.recipe import read_recipe
from recipes import CURRICULUM
from recipes.joining import joined_pairs
from recipes.numbering import numbered_rows
from recipes.renaming import renamed_texts
from recipes.shortening import short_rows

PAIRS = [
    ("I see 3 dogs.", "我看见三条狗。"),
    ("Help!", "救命！"),
    ("No, thank you.", "不，谢谢。"),
    ("We are late.", "我们迟到了。"),
]
ROWS: list[Row] = [*PAIRS]


def more_rows(rows: list[Row], steps: dict[str, int], seed: int) -> list[Row]:
    """The rows that a recipe with these steps adds."""
    changes = [f"data.{name}={n}" for name, n in steps.items()]
    recipe = read_recipe("en-zh-short", [*changes, f"training.seed={seed}"])
    return CURRICULUM.more_rows(recipe, rows)


def test_nothing_more_is_made_unless_asked_for() -> None:
    assert more_rows(ROWS, {}, seed=3) == []


def test_each_kind_of_row_is_made_of_what_it_needs() -> None:
    numbered = [(source, target) for source, target, _ in numbered_rows(PAIRS, 5, seed=3)]
    assert more_rows(ROWS, {"short": 6, "numbered": 5, "joined": 4}, seed=3) == [
        *joined_pairs(PAIRS, 4, seed=3),
        *numbered,
        *short_rows(PAIRS, 6, seed=3),
    ]
    for name, n in (("joined", 4), ("numbered", 5), ("short", 6)):
        assert len(more_rows(ROWS, {name: n}, seed=3)) == n


def test_texts_are_told_again_with_other_names() -> None:
    texts = [f"So {name} came. He sang." for name in ("Tom", "Ben", "Sam") for _ in range(12)]
    made = more_rows([*texts, *ROWS], {"renamed": 5}, seed=3)
    assert made == renamed_texts(texts, 5, seed=3)
    assert len(made) == 5
