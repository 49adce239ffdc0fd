"""Objectives by name: what recipes can ask for, what goes together, and what a state remembers."""

import inspect
import json
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from toy_runs import CONFIG, EXAMPLES, SETTINGS, VALID, same, weights, without_times

from models.__main__ import main
from models.training import objectives as package
from models.training.data import Material
from models.training.forcing import teacher_forced
from models.training.loop import Trainer
from models.training.objectives import Objective, settings_of
from models.training.objectives.likelihood import Likelihood
from models.training.objectives.preference import DirectPreference
from models.training.objectives.r_drop import RDrop
from models.training.objectives.registry import OBJECTIVES, make_objectives, without_shorthands
from models.training.objectives.unlikelihood import Unlikelihood
from models.training.objectives.wrong_masks import WrongMasks
from models.training.recipe import read_recipe
from models.training.state import STATE
from models.training.vocabulary import train_tokenizer
from models.transformer import build_model


def trainer(folder: Path, *objectives: Objective) -> Trainer:
    torch.manual_seed(SETTINGS.seed)
    material = Material(EXAMPLES, VALID)
    return Trainer(build_model(CONFIG), material, SETTINGS, folder, objectives)


def test_every_file_holds_one_objective_and_recipes_can_name_it() -> None:
    found = {}
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        of_module = [
            cls
            for _, cls in inspect.getmembers(import_module(module.name), inspect.isclass)
            if cls.__module__ == module.name and isinstance(getattr(cls, "name", None), str)
        ]
        if not module.name.endswith(".registry"):
            (cls,) = of_module
            found[cls.name] = cls
            assert module.name.endswith(f".{cls.name}")
    assert found == OBJECTIVES


def test_tables_become_objectives_and_back() -> None:
    tables: dict[str, dict[str, Any]] = {
        "r_drop": {"label_smoothing": 0.2, "weight": 3.0},
        "unlikelihood": {"weight": 1.5},
        "preference": {"weight": 2.0},
    }
    made = make_objectives(tables)
    assert made == (
        RDrop(label_smoothing=0.2, weight=3.0),
        Unlikelihood(weight=1.5),
        DirectPreference(weight=2.0),
    )
    assert settings_of(made) == tables


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"kindness": {}}, "no objective 'kindness': it must be one of likelihood, r_drop"),
        ({"likelihood": {"weight": 1}}, r"\[objectives.likelihood\] has unknown fields weight"),
        ({"preference": {"_before": 1}}, "unknown fields _before"),
        ({"likelihood": {"label_smoothing": 1.0}}, r"label_smoothing is 1.0: it must be in \[0, 1"),
        ({"wrong_masks": {"masks": "open"}}, "masks is 'open': it must be one of right, no_causal"),
        ({"r_drop": {"weight": -1}}, "r_drop is -1: it must be at least 0"),
        ({"unlikelihood": {"weight": -2}}, "unlikelihood is -2: it must be at least 0"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(
    tables: dict[str, dict[str, Any]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_objectives(tables)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("training.r_drop=5.0", (RDrop(weight=5.0),)),  # as the card of en-zh has it
        ("training.r_drop=0", (Likelihood(),)),
        ("training.label_smoothing=0.3", (Likelihood(label_smoothing=0.3),)),
        ("objectives.likelihood.label_smoothing=0.3", (Likelihood(label_smoothing=0.3),)),
        ('training.masks="inverted"', (WrongMasks(masks="inverted"),)),
        ('training.masks="right"', (Likelihood(),)),
        ("training.unlikelihood=2.0", (Likelihood(), Unlikelihood(weight=2.0))),
        ("objectives.preference.weight=2.0", (Likelihood(), DirectPreference(weight=2.0))),
        ("objectives.unlikelihood.weight=0", (Likelihood(),)),
    ],
)
def test_one_change_to_a_recipe_names_an_objective(
    change: str, expected: tuple[Objective, ...]
) -> None:
    assert read_recipe("en-zh-short", [change]).objectives == expected


def test_a_shorthand_changes_the_table_that_is_there() -> None:
    changes = ["training.unlikelihood=0.5", "training.label_smoothing=0.1"]
    assert read_recipe("stories", changes).objectives == (
        Likelihood(label_smoothing=0.1),
        Unlikelihood(weight=0.5),
        DirectPreference(weight=5.0),
    )
    loops = read_recipe("stories-loops", ["training.unlikelihood=0"])
    assert loops.objectives == (Likelihood(label_smoothing=0.0),)
    tables = {"wrong_masks": {"masks": "inverted"}}
    rest, objectives = without_shorthands({"label_smoothing": 0.2, "epochs": 3}, tables)
    assert (rest, objectives) == (
        {"epochs": 3},
        {"wrong_masks": {"masks": "inverted", "label_smoothing": 0.2}},
    )
    assert tables == {"wrong_masks": {"masks": "inverted"}}  # what is given stays as it is


@pytest.mark.parametrize("change", ["objectives.likelihood=3", "data.joined='x'"])
def test_a_value_of_another_kind_is_refused(change: str) -> None:
    with pytest.raises(ValueError, match=r"en-zh\.toml: "):
        read_recipe("en-zh", [change])


def test_a_number_in_place_of_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="'objectives=3' is no change of a recipe"):
        read_recipe("en-zh", ["objectives=3"])


def test_exactly_one_objective_learns_from_the_batch(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="likelihood, r_drop would learn from the batch"):
        trainer(tmp_path, Likelihood(), RDrop(weight=1.0))
    with pytest.raises(ValueError, match="no objective would learn from the batch"):
        trainer(tmp_path)


def test_wrong_masks_are_those_of_training_and_of_what_is_held_apart(tmp_path: Path) -> None:
    right, wrong = (
        trainer(tmp_path / objective.name, objective)
        for objective in (Likelihood(), WrongMasks(masks="no_causal"))
    )
    losses = [run.run().curve[-1] for run in (right, wrong)]
    assert losses[0]["loss"] != losses[1]["loss"]
    forced = teacher_forced(wrong.model, VALID, SETTINGS.max_tokens, "no_causal")
    assert losses[1]["valid_loss"] == round(forced.loss, 4)
    assert losses[1]["valid_loss"] != round(teacher_forced(wrong.model, VALID, 50).loss, 4)


def test_a_run_under_other_objectives_is_refused(tmp_path: Path) -> None:
    trainer(tmp_path, RDrop(weight=5.0)).run(stop=lambda: True)
    with pytest.raises(
        ValueError, match=r"contains a run with objectives = {'r_drop': {.*'weight': 5"
    ):
        trainer(tmp_path, RDrop(weight=4.0))
    with pytest.raises(
        ValueError, match=r"not {'likelihood': {'label_smoothing': 0.1}}: use anoth"
    ):
        trainer(tmp_path, Likelihood())


def test_a_run_begun_before_objectives_had_tables_goes_on(tmp_path: Path) -> None:
    whole = trainer(tmp_path / "whole", RDrop(weight=2.0))
    expected = without_times(whole.run().curve)
    half = trainer(tmp_path / "half", RDrop(weight=2.0))
    half.run(stop=lambda: half.step >= 7)
    state = tmp_path / "half" / STATE
    with safe_open(state, framework="pt") as file:
        about = file.metadata()
    stored = json.loads(about["run"])
    del stored["training"]["objectives"]
    stored["training"]["moments"] = stored["training"].pop("snapshots")
    stored["training"] |= {"label_smoothing": 0.1, "r_drop": 2.0, "masks": "right"}
    stored["training"] |= {"unlikelihood": 0.0, "preference": 0.0}
    del stored["model"]["lm_head"]  # a field that came later, with what was so before as default
    save_file(load_file(state), state, metadata={**about, "run": json.dumps(stored)})
    with pytest.raises(ValueError, match="contains a run with objectives"):
        trainer(tmp_path / "half", RDrop(weight=3.0))
    resumed = trainer(tmp_path / "half", RDrop(weight=2.0))
    assert resumed.step == 7
    assert without_times(resumed.run().curve) == expected
    assert same(weights(resumed.model), weights(whole.model))


def test_judgements_that_no_objective_reads_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [f"the {word} saw the king and the {word} ran" for word in ("cat", "dog", "fox")]
    (tmp_path / "texts.txt").write_text("\n<|endoftext|>\n".join(texts), encoding="utf-8")
    judged = [
        {"story": 0, "given": 3, "kept": kept, "broken": " ran"}
        for kept in ("", " saw the king and the king and the king")
    ]
    (tmp_path / "judged.jsonl").write_text("\n".join(map(json.dumps, judged)), encoding="utf-8")
    size = train_tokenizer(texts, 60).vocab_size
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'[data]\njudged = "{tmp_path / "judged.jsonl"}"\n[training]\nepochs = 1\n'
        f'[model]\nfamily = "decoder-only"\nvocab_size = {size}\nd_model = 16\nn_layers = 1\n'
        "n_heads = 2\nd_ff = 16\n"
    )
    arguments = ["train", "--recipe", str(recipe), "--data", str(tmp_path / "texts.txt")]
    assert main([*arguments, "--out", str(tmp_path / "run")]) == 1
    assert "preference is 0.0, with 2 pairs to prefer in" in capsys.readouterr().err
    change = ["--set", "objectives.preference.weight=1.0", "--set", "training.average=1"]
    assert main([*arguments, "--out", str(tmp_path / "run"), *change]) == 0
