"""Models of one's own, found in the folders that HEADLIGHT_MODELS names."""

import os
from collections.abc import Iterator
from pathlib import Path

from foreign import Golden

from models.foreign import found, open_folder
from models.foreign.finding import VARIABLE, without_models


def test_a_folder_of_models_a_model_and_the_cache_of_the_hub(tmp_path):
    many, one = tmp_path / "many", tmp_path / "one"
    Golden.load("gpt2").write(many / "b")
    Golden.load("gpt2").write(many / "a")
    (many / "not-a-model").mkdir()
    Golden.load("gpt2").write(one)
    old = Golden.load("gpt2").write(tmp_path / "hub" / "models--org--name" / "snapshots" / "old")
    new = Golden.load("llama").write(old.parent / "new")
    (old.parents[1] / "refs").mkdir()
    (old.parents[1] / "refs" / "main").write_text("old\n")
    models = found([many, one, tmp_path / "hub", tmp_path / "missing"])
    assert list(models) == ["a", "b", "one", "org/name"]
    assert models["one"] == one
    assert open_folder(models["org/name"]).folder == old
    (old.parents[1] / "refs" / "main").unlink()
    os.utime(old, (1, 1))
    assert open_folder(models["org/name"]).folder == new


def test_models_two_levels_down_are_found(tmp_path):
    """As other programs keep them (org/name), and as a training leaves its checkpoints."""
    for name in ("org/one", "org/two", "run/checkpoint-500", "far/too/deep"):
        Golden.load("gpt2").write(tmp_path / name)
    (tmp_path / "publisher" / "repository").mkdir(parents=True)
    (tmp_path / "publisher" / "repository" / "bits.gguf").touch()
    (tmp_path / "publisher" / "notes.txt").touch()
    for name in (".locks/models--org--name", ".git/inside", "models--org--gone/blobs"):
        (tmp_path / name).mkdir(parents=True)
    Golden.load("gpt2").write(tmp_path / ".git" / "inside")
    # What belongs to a model is no model of its own.
    Golden.load("gpt2").write(tmp_path / "org" / "one" / "1_Pooling")
    models = found([tmp_path])
    assert list(models) == ["org/one", "org/two", "bits", "run/checkpoint-500"]
    assert models["org/two"] == tmp_path / "org" / "two"


def test_a_folder_that_may_not_be_listed_hides_only_itself(tmp_path, monkeypatch):
    for name in ("open/one", "shut/two"):
        Golden.load("gpt2").write(tmp_path / name)
    listed = Path.iterdir

    def refuse(path: Path) -> Iterator[Path]:
        if path.name == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert list(found([tmp_path])) == ["open/one"]


def test_two_models_of_one_name_are_told_apart(tmp_path):
    for place in ("x", "y"):
        Golden.load("gpt2").write(tmp_path / place / "same")
    assert list(found([tmp_path / "x", tmp_path / "y", tmp_path / "x"])) == ["same", "y/same"]


def test_the_variable_names_folders_as_path_does(tmp_path, monkeypatch):
    Golden.load("gpt2").write(tmp_path / "a" / "mine")
    monkeypatch.setenv(VARIABLE, f"{tmp_path / 'nothing'}{os.pathsep}{tmp_path / 'a'}")
    assert list(found()) == ["mine"]
    assert without_models() == ()
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv(VARIABLE, f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'empty'}")
    assert without_models() == (tmp_path / "empty",)
    monkeypatch.delenv(VARIABLE)
    assert found() == {}


def test_weights_without_a_config_and_links_to_nothing_are_found(tmp_path):
    """So that the list of models says why they cannot be opened."""
    (Golden.load("gpt2").write(tmp_path / "bare") / "config.json").unlink()
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "ggufs").mkdir()
    for name in ("few", "many"):
        (tmp_path / "ggufs" / f"{name}-bits.gguf").touch()
    (tmp_path / "notes").mkdir()
    assert list(found([tmp_path])) == ["bare", "circle", "few-bits", "many-bits"]
    assert list(found([tmp_path / "bare"])) == ["bare"]
    assert list(found([tmp_path / "ggufs" / "few-bits.gguf"])) == ["few-bits"]
