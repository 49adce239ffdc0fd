"""The shipped models' recipes, their commands, and what is left without them."""

import json
from pathlib import Path

import pytest
from toy_runs import PAIRS, write_untrained

from explorer.analysis.alignment.known import Toy, toy_of
from explorer.exhibits.positions.learned import SEEDS
from models import load_checkpoint
from models.__main__ import main as models_main
from models.training import recipe as reading
from models.training.home import asset
from models.training.recipe import read_recipe, recipe_names
from models.transformer import EncoderDecoder
from recipes import numbering
from recipes.__main__ import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("checkpoints") / "tiny"
    return write_untrained(path)


def test_longer_rows_are_trained_on_beside_the_short_ones_and_scored_alone(
    folder, tmp_path, capsys
):
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS), encoding="utf-8")
    # A batch a row, so that the steps count the rows.
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(
        f'[data]\njoined = 3\nstart = "{folder}"\n'
        "[training]\nepochs = 1\nmax_tokens = 1\naverage = 1\n"
        f"[model]\nvocab_size = {load_checkpoint(folder).config.vocab_size}\n"
        "d_model = 16\nn_layers = 1\nn_heads = 2\nd_ff = 16\nn_ctx = 40\n"
    )
    out = str(tmp_path / "run")
    assert models_main(["train", "--recipe", str(recipe), "--data", str(data), "--out", out]) == 0
    (row,) = [json.loads(row) for row in capsys.readouterr().out.splitlines() if row[0] == "{"]
    assert row["step"] == len(PAIRS) + 3
    arguments = ["evaluate", "--model", str(folder), "--pairs", str(data)]
    assert models_main(arguments) == 0
    short = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert main([*arguments, "--joined", "7"]) == 0
    long = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert short["sentences"] == 3 < long["sentences"]
    assert models_main([*arguments, "--recipe", str(recipe)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == short | {
        "seconds": pytest.approx(short["seconds"], abs=5)
    }


def test_a_number_is_kept_where_the_translation_names_it(folder, monkeypatch):
    checkpoint = load_checkpoint(folder)
    assert isinstance(checkpoint.model, EncoderDecoder)
    asked: list[list[str]] = []

    def said(model: object, tokenizer: object, sentences: list[str], strategy: object) -> list[str]:
        asked.append(sentences)
        return ["他有20个", "二十五岁", "七点半"]

    monkeypatch.setattr(numbering, "translate", said)
    rows = [("twenty", "二十", 20), ("five", "五", 5), ("half past seven", "七点半", 7)]
    result = numbering.numbers_kept(checkpoint.model, checkpoint.tokenizer, rows)
    assert result == {"numbers": 66.7, "sentences": 3}
    assert asked == [["twenty", "five", "half past seven"]]


def test_the_shell_asks_for_other_numbers(folder, tmp_path, capsys):
    data = tmp_path / "pairs.tsv"
    data.write_text("the fox is 20\t狐狸二十岁\n", encoding="utf-8")
    arguments = ["evaluate", "--model", str(folder), "--pairs", str(data), "--numbered", "7"]
    assert main(arguments) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result == {"model": "tiny", "numbers": 0.0, "sentences": 7}


@pytest.mark.parametrize("option", ["--joined", "--numbered"])
def test_rows_are_counted_from_one(option, capsys):
    for wrong in ("0", "-3", "few"):
        with pytest.raises(SystemExit):
            main(["evaluate", "--pairs", "x", f"{option}={wrong}"])
        assert "must be a whole number, 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.colour=1", "unknown fields colour"),
        ("model.n_heads=7", "d_model is 256"),
        ("training.epochs=0", "epochs is 0"),
        ("data.joined=-1", "joined is -1"),
        ("data.numbered=-1", "numbered is -1"),
        ('objectives.wrong_masks.masks="open"', "masks is 'open'"),
        ("model.norm=layernorm", "'model.norm=layernorm' is no change of a recipe"),
        ("model.dropout", "'model.dropout' is no change of a recipe"),
        ("foo", "'foo' is no change of a recipe"),
        ("", "'' is no change of a recipe"),
        ("garden.size=1", "unknown tables"),
        ("objectives.likelihood=3", r"en-zh\.toml: "),
        ("data.joined='x'", r"en-zh\.toml: "),
        ("objectives=3", "'objectives=3' is no change of a recipe"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        read_recipe("en-zh", [change])


def test_an_installed_copy_says_where_the_recipes_are(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "RECIPES", tmp_path / "recipes")
    with pytest.raises(ValueError, match=r"no recipe 'copy': .* folder recipes/ is not installed"):
        read_recipe("copy", [])
    file = tmp_path / "mine.toml"
    file.write_text("[data]\njoined = 3\n[model]\nvocab_size = 9\n")
    with pytest.raises(ValueError, match=r"\[data\] has unknown fields joined"):
        read_recipe(str(file), [])


def test_what_the_app_knows_of_recipes_is_in_them():
    recipes = {name: read_recipe(name, []) for name in recipe_names()}
    shipped = {path.name for path in asset("checkpoints").iterdir()} & recipes.keys()
    assert len(shipped) > 10
    for name in shipped:
        recipe = recipes[name]
        task = recipe.data.task
        toy = task and Toy(task, *recipe.data.lengths, recipe.data.symbols)
        assert toy_of(name) == toy
        if recipe.model.positions == "learned" and not recipe.data.start:
            assert SEEDS[name] == recipe.training.seed
