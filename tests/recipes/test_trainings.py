"""Trainings from data to a checkpoint: on drawn pictures, and in one process and two."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from models.__main__ import main
from models.pictures.faces import FONTS
from models.training.evaluate import edit_distance
from recipes.__main__ import main as draw
from recipes.drawing import save_pictures, split_of
from recipes.objectives import smudged

PAIRS = "one two\t我们今天\nthree\t你好\n"


def test_a_recipe_learns_from_drawn_pictures(tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text(PAIRS)
    for name, count in (("train", "40"), ("valid", "8")):
        drawing = ["draw", "--words", str(tmp_path / "pairs.tsv"), "--split", "test"]
        drawing += ["--count", count, "--fonts", str(FONTS), "--chinese", "0.5"]
        assert draw([*drawing, "--out", str(tmp_path / f"{name}.npz")]) == 0
    with np.load(tmp_path / "train.npz") as made:
        assert made["pictures"].shape == (40, 24, 96)
        assert made["pictures"].reshape(40, -1).max(1).min() > 50
        n_characters = len({c for text in made["texts"] for c in text})
        chinese = {str(each) for each in made["texts"] if set(each) & set("我们今天你好")}
        assert 10 <= len(chinese) <= 30
    train = ["train", "--recipe", "reader-base", "--out", str(tmp_path / "run")]
    for change in (f"model.vocab_size={4 + n_characters}", "model.d_model=16", "training.epochs=1"):
        train += ["--set", change]
    files = ["--data", str(tmp_path / "train.npz"), "--valid", str(tmp_path / "valid.npz")]
    assert main([*train, *files]) == 0
    model = str(tmp_path / "run" / "checkpoint")
    assert main(["evaluate", "--model", model, "--pairs", str(tmp_path / "valid.npz")]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["pictures"] == 8
    assert 0 <= said["words"] <= said["letters"] <= 100


def test_smudging_changes_each_picture_and_held_out_families_are_never_trained_on(tmp_path):
    torch.manual_seed(0)
    patches = torch.randint(0, 256, (3, 4, 6))
    found = smudged(patches, 24.0)
    assert found.dtype == patches.dtype
    assert 0 <= found.min() <= found.max() <= 255
    assert (found != patches).flatten(1).any(1).all()
    splits = {"Lato": "test", "Oxygen Mono": "valid", "Roboto": "train"}
    assert {family: split_of(family) for family in splits} == splits
    (tmp_path / "pairs.tsv").write_text(PAIRS)
    with pytest.raises(ValueError, match="no fonts"):
        save_pictures(tmp_path / "x.npz", "valid", 1, 1, FONTS, tmp_path / "pairs.tsv")
    with pytest.raises(ValueError, match="between 0 and 1"):
        save_pictures(tmp_path / "x.npz", "test", 1, 1, FONTS, tmp_path / "pairs.tsv", 2.0)
    (tmp_path / "pairs.tsv").write_text("one two\tx\n")
    with pytest.raises(ValueError, match="no Chinese"):
        save_pictures(tmp_path / "x.npz", "test", 1, 1, FONTS, tmp_path / "pairs.tsv", 0.5)


def test_edit_distance():
    distances = {"kitten": 0, "sitting": 3, "": 6, "itten": 1}
    assert {each: edit_distance("kitten", each) for each in distances} == distances


# Under torchrun in two processes, on data of a few lines; `make sweep` runs these.

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


def test_judgements_that_no_objective_reads_are_refused(tmp_path, capsys):
    recipe, _, _ = RECIPES["preference"][0].partition("[objectives")
    command = [*arguments(tmp_path, recipe, "decoder-only"), "--out", str(tmp_path / "run")]
    assert main(command) == 1
    assert "data.judged and objectives.preference belong together" in capsys.readouterr().err
    assert main([*command, "--set", "objectives.preference.weight=1.0"]) == 0


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
