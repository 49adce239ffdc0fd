"""A file of pairs, and tiny models to measure over it."""

from pathlib import Path

import pytest

PAIRS = (
    ("I love you.", "我爱你。"),
    ("The cat sat on the mat.", "猫坐在垫子上。"),
    ("A dog ran after the cat, and the cat ran away.", "狗追着猫跑，猫跑开了。"),
    ("The dog sat on the cat.", "狗坐在猫上。"),
    ("You love the cat.", "你爱猫。"),
)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Five pairs with somebody to credit, each a line."""
    path = tmp_path / "pairs.tsv"
    lines = [f"{source}\t{target}\tperson {at}" for at, (source, target) in enumerate(PAIRS)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
