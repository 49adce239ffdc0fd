"""Training on pictures, from drawn files to a checkpoint that the commands can open."""

import json

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


def test_held_out_families_are_never_trained_on(tmp_path):
    assert [split_of(each) for each in ("Lato", "Oxygen Mono", "Roboto")] == [
        "test",
        "valid",
        "train",
    ]
    (tmp_path / "pairs.tsv").write_text(PAIRS)
    with pytest.raises(ValueError, match="no fonts"):
        save_pictures(tmp_path / "x.npz", "valid", 1, 1, FONTS, tmp_path / "pairs.tsv")
    with pytest.raises(ValueError, match="between 0 and 1"):
        save_pictures(tmp_path / "x.npz", "test", 1, 1, FONTS, tmp_path / "pairs.tsv", 2.0)
    (tmp_path / "pairs.tsv").write_text("one two\tx\n")
    with pytest.raises(ValueError, match="no Chinese"):
        save_pictures(tmp_path / "x.npz", "test", 1, 1, FONTS, tmp_path / "pairs.tsv", 0.5)


def test_smudging_keeps_grey_levels_and_changes_each_picture():
    torch.manual_seed(0)
    patches = torch.randint(0, 256, (3, 4, 6))
    found = smudged(patches, 24.0)
    assert found.dtype == patches.dtype
    assert 0 <= found.min() <= found.max() <= 255
    assert (found != patches).flatten(1).any(1).all()


def test_edit_distance():
    assert [edit_distance("kitten", each) for each in ("kitten", "sitting", "", "itten")] == [
        0,
        3,
        6,
        1,
    ]
