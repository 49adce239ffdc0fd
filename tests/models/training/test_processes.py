"""`torchrun` with two processes: the same global batches, so the loss curve of one process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAIRS = """
[data]
task = "reverse"
examples = 60
valid_examples = 20
lengths = [2, 6]
symbols = 8
"""
TEXTS = """
[objectives.unlikelihood]
weight = 4.0
"""
JUDGED = """
[data]
judged = "@/judged.jsonl"
[objectives.preference]
weight = 0.5
"""
SIZES = ["d_model=16", "n_layers=1", "n_heads=2", "d_ff=24", "n_ctx=48", "dropout=0.0"]
SETTINGS = ["epochs=3", "max_tokens=64", "learning_rate=1e-2", "warmup=4", "average=1"]


def curve(folder: Path, name: str, recipe: str, family: str, start: list[str]) -> list[dict]:
    """The rows that the command prints, one an epoch, their times left out."""
    file = folder / "recipe.toml"
    file.write_text(recipe.replace("@", folder.as_posix()), encoding="utf-8")
    texts = folder / "texts.txt"
    lines = [f"the {a} saw the {b} and the {a} ran" for a in "abcde" for b in "fghi"]
    texts.write_text("\n<|endoftext|>\n".join(lines), encoding="utf-8")
    judged = [
        {"story": story, "given": 3, "kept": kept, "broken": " ran"}
        for story in range(20)
        for kept in ("", " saw the b and the c and the d")
    ]
    (folder / "judged.jsonl").write_text("\n".join(map(json.dumps, judged)), encoding="utf-8")
    changes = [f'model.family="{family}"', *(f"model.{size}" for size in SIZES)]
    changes += [f"training.{setting}" for setting in SETTINGS] + ['training.precision="float32"']
    changes += [f"model.vocab_size={28 if family == 'decoder-only' else 13}"]
    given = ["--data", str(texts), "--valid", str(texts)] if family == "decoder-only" else []
    said = subprocess.run(
        [sys.executable, *start, "-m", "models", "train", "--recipe", str(file)]
        + ["--out", str(folder / name), *given]
        + [part for change in changes for part in ("--set", change)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    rows = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


@pytest.mark.parametrize(
    ("recipe", "family"),
    [(PAIRS, "encoder-decoder"), (TEXTS, "decoder-only"), (JUDGED, "decoder-only")],
    ids=["pairs", "against repetition", "by preference"],
)
def test_two_processes_have_the_loss_curve_of_one(tmp_path: Path, recipe: str, family: str) -> None:
    one = curve(tmp_path, "one", recipe, family, [])
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    two = curve(tmp_path, "two", recipe, family, run)
    assert len(one) == len(two) == 3
    for alone, shared in zip(one, two, strict=True):
        assert shared == pytest.approx(alone, abs=2e-3)
    assert one[-1]["loss"] < one[0]["loss"] - 0.1  # it did learn something
