"""The shipped models' recipes, their commands, and models that begin as smaller ones."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_runs import PAIRS, SETTINGS, VALID, trainer, write_untrained

from explorer.analysis.alignment.study import LENGTHS, SYMBOLS, toy_of
from models import ModelConfig, build_model, load_checkpoint
from models.__main__ import main as models_main
from models.rows import Rows
from models.training import recipe as reading
from models.training.data import collate
from models.training.faults import masked_as
from models.training.home import asset
from models.training.loss import sequence_loss, teacher_forced
from models.training.objectives import Likelihood, make_objectives, settings_of
from models.training.recipe import read_recipe, recipe_names
from models.training.saving import SNAPSHOTS, save_checkpoint, snapshot_name
from models.training.vocabulary import characters, train_tokenizer
from models.transformer import EncoderDecoder, Model
from recipes import numbering
from recipes.__main__ import main
from recipes.growing import add_tokens, grow
from recipes.objectives import RDrop, Unlikelihood, WrongMasks, disagreement, twice
from recipes.preference import DirectPreference


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
    figures = {"bleu", "chrf", "exact", "loss", "accuracy", "sentences", "seconds"}
    assert set(short) == {"model", *figures}
    assert models_main([*arguments, "--recipe", str(recipe)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == short | {
        "seconds": pytest.approx(short["seconds"], abs=5)
    }


def test_numbers_are_asked_for_and_kept_where_the_translation_names_them(
    folder, tmp_path, capsys, monkeypatch
):
    data = tmp_path / "pairs.tsv"
    data.write_text("the fox is 20\t狐狸二十岁\n", encoding="utf-8")
    arguments = ["evaluate", "--model", str(folder), "--pairs", str(data), "--numbered", "7"]
    assert main(arguments) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result == {"model": "tiny", "numbers": 0.0, "sentences": 7}
    checkpoint = load_checkpoint(folder)
    asked: list[list[str]] = []

    def said(model: object, tokenizer: object, sentences: list[str], strategy: object) -> list[str]:
        asked.append(sentences)
        return ["他有20个", "二十五岁", "七点半"]

    monkeypatch.setattr(numbering, "translate", said)
    rows = [("twenty", "二十", 20), ("five", "五", 5), ("half past seven", "七点半", 7)]
    result = numbering.numbers_kept(checkpoint.model, checkpoint.tokenizer, rows)
    assert result == {"numbers": 66.7, "sentences": 3}
    assert asked == [["twenty", "five", "half past seven"]]


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
        ("training.epochs=0", "epochs is 0"),
        ("model.norm=layernorm", "'model.norm=layernorm' is no change of a recipe"),
        ("model.dropout", "'model.dropout' is no change of a recipe"),
        ("garden.size=1", "unknown tables"),
        ("objectives.likelihood=3", r"en-zh\.toml: "),
        ("data.joined='x'", r"en-zh\.toml: "),
        ("objectives=3", "'objectives=3' is no change of a recipe"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        read_recipe("en-zh", [change])


def test_what_the_app_knows_is_in_the_recipes_and_a_copy_says_where_they_are(tmp_path, monkeypatch):
    recipes = {name: read_recipe(name, []) for name in recipe_names()}
    shipped = {path.name for path in asset("checkpoints").iterdir()} & recipes.keys()
    assert len(shipped) > 10
    for name in shipped:
        recipe = recipes[name]
        task = recipe.data.task
        assert toy_of(name) == task
        assert not task or (recipe.data.lengths, recipe.data.symbols) == (LENGTHS, SYMBOLS)
    monkeypatch.setattr(reading, "RECIPES", tmp_path / "recipes")
    with pytest.raises(ValueError, match=r"no recipe 'copy': .* folder recipes/ is not installed"):
        read_recipe("copy", [])
    file = tmp_path / "mine.toml"
    file.write_text("[data]\njoined = 3\n[model]\nvocab_size = 9\n")
    with pytest.raises(ValueError, match=r"\[data\] has unknown fields joined"):
        read_recipe(str(file), [])


# A larger model begins as the smaller one: the same numbers out, and all of it can learn.
SIZES: dict[str, Any] = {
    "vocab_size": 30, "d_model": 16, "n_heads": 4, "d_ff": 24, "norm_placement": "pre",
    "final_norm": True,
}  # fmt: skip
MODERN: dict[str, Any] = {
    "family": "decoder-only", "n_kv_heads": 1, "norm": "rmsnorm", "positions": "rotary",
    "ffn": "swiglu", "bias": False,
}  # fmt: skip


def built(seed: int, **changes: Any) -> Model:
    torch.manual_seed(seed)
    model = build_model(ModelConfig(**{**SIZES, **changes})).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:  # so that a lost bias or norm shows
            torch.nn.init.normal_(parameter)
    return model


def logits(model: Model) -> torch.Tensor:
    tokens = torch.randint(3, 30, (2, 7), generator=torch.Generator().manual_seed(1))
    everything = torch.ones_like(tokens, dtype=torch.bool)
    if isinstance(model, EncoderDecoder):
        return model.read(Rows(tokens.flip(1), everything, tokens, everything))
    return model.read(Rows(tokens, everything))


@pytest.mark.parametrize("kind", [{}, MODERN], ids=["encoder-decoder", "modern decoder"])
@pytest.mark.parametrize("times", [2, 3])
def test_a_grown_model_computes_the_same(kind, times):
    small = built(0, n_layers=2, **kind)
    grown = built(1, n_layers=2 * times, dropout=0.3, **kind)
    assert not torch.allclose(logits(grown), logits(small), atol=0.1)
    grow(small, grown)
    assert torch.equal(logits(grown), logits(small))


@pytest.mark.parametrize(
    ("placement", "large", "message"),
    [
        ("pre", {"n_layers": 3}, "n_layers is 3: it must be a multiple of the 2"),
        ("pre", {"n_layers": 1}, "n_layers is 1: it must be a multiple of the 2"),
        ("pre", {"d_ff": 32}, "only n_layers and dropout may differ"),
        ("post", {}, "is 'post': .* only where it is 'pre'"),
        ("sublayer", {}, "is 'sublayer': .* only where"),
    ],
)
def test_what_cannot_grow_is_refused(placement, large, message):
    small = built(0, n_layers=2, norm_placement=placement)
    with pytest.raises(ValueError, match=message):
        grow(small, built(0, **{"n_layers": 4, "norm_placement": placement, **large}))


def test_a_recipe_with_more_layers_begins_with_the_grown_model(tmp_path):
    story = "the fox likes the dog and the dog likes the fox"
    tokenizer = train_tokenizer([story] * 2, vocab_size=30)
    small = built(0, n_layers=1, vocab_size=tokenizer.vocab_size, **MODERN)
    save_checkpoint(tmp_path / "small", small, tokenizer)
    (tmp_path / "stories.txt").write_text(f"{story}\n<|endoftext|>\n")
    wanted = replace(small.config, n_layers=2)
    settings = "\n".join(
        f"{field} = {json.dumps(value)}"
        for field, value in json.loads(wanted.to_json()).items()
        if value is not None
    )
    (tmp_path / "deeper.toml").write_text(
        f'[data]\nstart = "{tmp_path / "small"}"\n[model]\n{settings}\n'
        "[training]\nepochs = 1\naverage = 1\nsnapshots = [0]\n"
    )
    arguments = ["--recipe", tmp_path / "deeper.toml", "--data", tmp_path / "stories.txt"]
    assert models_main(["train", *map(str, arguments), "--out", str(tmp_path / "run")]) == 0
    begun = load_checkpoint(
        tmp_path / "run" / "checkpoint", f"{SNAPSHOTS}/{snapshot_name(0)}"
    ).model
    expected = build_model(wanted)
    grow(small, expected)
    for one, other in zip(begun.parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, other.half().float())


def test_a_model_with_more_tokens_computes_the_same_for_those_it_knew():
    known, tokenizer = characters(["bd"], 6), characters(["abcde"], 9)
    small, model = (built(seed, n_layers=2, **MODERN, vocab_size=n) for seed, n in ((0, 6), (1, 9)))
    add_tokens(small, known, model, tokenizer)
    before = small.read(Rows(torch.tensor([known.encode("bdb")]), torch.ones(1, 3).bool()))
    now = model.read(Rows(torch.tensor([tokenizer.encode("bdb")]), torch.ones(1, 3).bool()))
    torch.testing.assert_close(now[..., [*range(4), *tokenizer.encode("bd")]], before)
    with pytest.raises(ValueError, match="'b'"):
        add_tokens(small, known, model, characters(["acdef"], 9))
    with pytest.raises(ValueError, match="only vocab_size"):
        add_tokens(small, known, built(1, n_layers=3, **MODERN, vocab_size=9), tokenizer)


# Objectives by name: what goes together, and what each minimises.
@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"kindness": {}}, "no objective 'kindness': it must be one of likelihood, masked_words"),
        ({"likelihood": {"weight": 1}}, r"\[objectives.likelihood\] has unknown fields weight"),
        ({"preference": {"_before": 1}}, "unknown fields _before"),
        ({"likelihood": {"label_smoothing": 1.0}}, r"label_smoothing is 1.0: it must be in \[0, 1"),
        ({"wrong_masks": {"masks": "open"}}, "masks is 'open': it must be one of right, no_causal"),
        ({"r_drop": {"weight": -1}}, "r_drop is -1: it must be at least 0"),
        ({"unlikelihood": {"weight": -2}}, "unlikelihood is -2: it must be at least 0"),
        ({"preference": {"weight": -1}}, "preference is -1: it must be at least 0"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(tables, message):
    with pytest.raises(ValueError, match=message):
        make_objectives(tables)


PLAIN, PREFERRED = Likelihood(label_smoothing=0.0), DirectPreference(weight=5.0)


@pytest.mark.parametrize(
    ("recipe", "changes", "expected"),
    [
        ("en-zh-short", ("likelihood.label_smoothing=0.3",), [Likelihood(label_smoothing=0.3)]),
        ("en-zh-short", ("unlikelihood.weight=0",), [Likelihood()]),
        # As the card of en-zh replaces likelihood by R-Drop.
        ("en-zh-short", ("likelihood.weight=0", "r_drop.weight=5.0"), [RDrop(weight=5.0)]),
        ("stories", ("unlikelihood.weight=0.5",), [PLAIN, Unlikelihood(weight=0.5), PREFERRED]),
    ],
)
def test_changes_to_a_recipe_name_its_objectives(recipe, changes, expected):
    changes = [f"objectives.{change}" for change in changes]
    objectives = read_recipe(recipe, changes).objectives
    assert list(objectives) == expected
    assert make_objectives(settings_of(objectives)) == objectives


def test_one_objective_learns_from_the_batch_with_its_masks_in_what_is_held_apart_too(tmp_path):
    with pytest.raises(ValueError, match="likelihood, r_drop would learn from the batch"):
        trainer(tmp_path, objectives=(Likelihood(), RDrop(weight=1.0)))
    with pytest.raises(ValueError, match="no objective would learn from the batch"):
        trainer(tmp_path, objectives=())
    objective = WrongMasks(masks="no_causal")
    run = trainer(tmp_path, objectives=[objective])
    batch = collate(VALID, run.model.eval())
    with masked_as("no_causal", run.model, batch.rows.tgt_valid):
        expected = Likelihood().loss(batch, run).minimised
    assert torch.equal(objective.loss(batch, run).minimised, expected)
    assert not torch.equal(Likelihood().loss(batch, run).minimised, expected)
    right, wrong = (
        round(teacher_forced(run.model, VALID, SETTINGS.max_tokens, masks).loss, 4)
        for masks in ("right", "no_causal")
    )
    assert objective.metrics(run) == {"valid_loss": wrong} != {"valid_loss": right}


def test_r_drop_asks_two_passes_to_agree_by_the_mean_of_both_divergences(tmp_path):
    objective = RDrop(weight=3.0)
    run = trainer(tmp_path, objectives=[objective])
    batch = collate(VALID, run.model.train())
    torch.manual_seed(5)
    loss = objective.loss(batch, run)
    torch.manual_seed(5)
    one, other = run.logits(twice(batch).rows).chunk(2)
    assert not torch.equal(one, other)  # each has its own dropout
    plain = [sequence_loss(each, batch.labels, batch.loss_mask, 0.1) for each in (one, other)]
    torch.testing.assert_close(loss.shown, sum(plain) / 2)
    apart = disagreement(one, other, batch.loss_mask)
    torch.testing.assert_close(loss.minimised, sum(plain) / 2 + 1.5 * apart)
    one, other = torch.randn(2, 3, 5, dtype=torch.float64), torch.randn(2, 3, 5).double()
    real = torch.tensor([[True, True, False], [True, False, False]])
    log_p, log_q = (each.log_softmax(-1)[real] for each in (one, other))
    both = [
        torch.nn.functional.kl_div(b, a, reduction="sum", log_target=True)
        for a, b in ((log_p, log_q), (log_q, log_p))
    ]
    torch.testing.assert_close(disagreement(one, other, real), sum(both) / 2)
    assert disagreement(one, one, real) == 0
