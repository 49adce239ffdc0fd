"""Objectives by name: what recipes can ask for, what goes together, and what a state remembers."""

import pytest
import torch
from toy_runs import SETTINGS, VALID, trainer

from models.training.data import collate
from models.training.faults import masked_as
from models.training.forcing import teacher_forced
from models.training.loss import sequence_loss
from models.training.objectives import Likelihood, make_objectives, settings_of
from models.training.recipe import read_recipe
from recipes.objectives import RDrop, Unlikelihood, WrongMasks, disagreement, twice
from recipes.preference import DirectPreference


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
