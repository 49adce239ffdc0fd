"""`python -m models train` in one process and under torchrun in two, on data of a few lines.

They take seconds; `make sweep` runs them.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from models.__main__ import main

ROOT = Path(__file__).parents[2]
SIZES = ["d_model=16", "n_layers=1", "n_heads=2", "d_ff=24", "n_ctx=48", "dropout=0.0"]
SETTINGS = ["epochs=3", "max_tokens=64", "learning_rate=1e-2", "warmup=4", "average=1"]


def arguments(folder: Path, recipe: str, family: str) -> list[str]:
    """Of a training by this recipe, in which @ stands for `folder`; but for where it goes."""
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
    settings = [part for change in changes for part in ("--set", change)]
    return ["train", "--recipe", str(file), *given, *settings]


def rows(said: str) -> list[dict[str, float]]:
    """What the command prints, one row an epoch, their times left out."""
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in found]


RECIPES = {
    "pairs": (
        '[data]\ntask = "reverse"\nexamples = 60\nvalid_examples = 20\n'
        "lengths = [2, 6]\nsymbols = 8",
        "encoder-decoder",
    ),
    "preference": (
        '[data]\njudged = "@/judged.jsonl"\n[objectives.preference]\nweight = 0.5',
        "decoder-only",
    ),
    "repetition": ("[objectives.unlikelihood]\nweight = 4.0", "decoder-only"),
}


@pytest.mark.sweep
@pytest.mark.parametrize(("recipe", "family"), RECIPES.values(), ids=RECIPES)
def test_two_processes_have_the_loss_curve_of_one(tmp_path, capsys, recipe, family):
    """They read the global batches of one, so its loss curve is theirs."""
    command = arguments(tmp_path, recipe, family)
    assert main([*command, "--out", str(tmp_path / "one")]) == 0
    one = rows(capsys.readouterr().out)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    said = subprocess.run(
        [sys.executable, *torchrun, "-m", "models", *command, "--out", str(tmp_path / "two")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    two = rows(said.stdout)
    assert len(one) == len(two) == 3
    for alone, shared in zip(one, two, strict=True):
        assert shared == pytest.approx(alone, abs=2e-3)
    assert one[-1]["loss"] < one[0]["loss"] - 0.1  # it did learn something
