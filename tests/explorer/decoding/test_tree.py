"""The tree of everything that was tried: probabilities, scores, and where beginnings fell."""

import math

import pytest
from payloads import unpack

from explorer.components.tree_view import TreeNode, pack_tree_view
from explorer.exhibits.decoding.tree import Line, Tree, grow
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.passes import finished
from explorer.runs.trace import Generation, generate
from explorer.text import family
from models.strategies import Beam, Greedy, Sample

WORDS = family("components.tree_view", lang="en")

TEXT = "The cat ran."
BEAM = Beam(3, 0.7)


@pytest.fixture(params=["translator", "writer"])
def loaded(request: pytest.FixtureRequest) -> LoadedModel:
    model: LoadedModel = request.getfixturevalue(request.param)
    return model


def grown(loaded: LoadedModel, beam: Beam = BEAM, limit: int = 6) -> Tree:
    others: dict[Line, Generation] = {
        "greedy": generate(loaded, TEXT, Greedy(), limit),
        "sample": generate(loaded, TEXT, Sample(temperature=2.0, seed=4), limit),
    }
    return finished(grow(loaded, TEXT, beam, others, limit))


def test_every_node_adds_one_token_and_its_probability(loaded: LoadedModel) -> None:
    tree = grown(loaded)
    assert len({node.tokens for node in tree.nodes}) == len(tree.nodes) > 12
    for at, node in enumerate(tree.nodes):
        before = 0.0
        if node.parent is None:
            assert len(node.tokens) == 1
        else:
            assert node.parent < at
            parent = tree.nodes[node.parent]
            assert parent.tokens == node.tokens[:-1]
            assert parent.fate != "finished"
            before = parent.logprob
        assert node.logprob - before == pytest.approx(math.log(node.prob), abs=1e-4)
        assert node.score == pytest.approx(node.logprob / len(node.tokens) ** 0.7)
        assert node.text == loaded.tokenizer.decode(node.tokens)


def test_the_answers_are_those_of_the_strategies(loaded: LoadedModel) -> None:
    tree = grown(loaded)
    for line, strategy in (
        ("beam", BEAM),
        ("greedy", Greedy()),
        ("sample", Sample(temperature=2.0, seed=4)),
    ):
        made = generate(loaded, TEXT, strategy, 6)
        end = tree.nodes[tree.ends[line]]  # type: ignore[index]
        assert end.tokens == made.tokens
        text, logprob, _ = tree.answers[line]  # type: ignore[index]
        assert (text, logprob) == (made.text, pytest.approx(made.logprob, abs=1e-4))
        on_it = {node.tokens for node in tree.nodes if line in node.lines}
        assert on_it == {made.tokens[:n] for n in range(1, len(made.tokens) + 1)}


def test_what_falls_falls_at_the_step_at_which_the_beam_drops_it(loaded: LoadedModel) -> None:
    tree = grown(loaded, Beam(2, 0.0))
    kept = {node.tokens for node in tree.nodes if node.fate != "fallen"}
    n_fallen = 0
    for node in tree.nodes:
        if node.fate != "fallen":
            assert node.fell_at is None
            continue
        n_fallen += 1
        assert node.fell_at in (len(node.tokens) - 1, len(node.tokens))
        assert node.fell_score is not None
        rivals = [
            other.logprob
            for other in tree.nodes
            if len(other.tokens) == node.fell_at + 1
            and other.fate != "fallen"
            and (not other.lines or "beam" in other.lines)
        ]
        assert not rivals or node.fell_score <= min(rivals) + 1e-6
        if node.fell_at == len(node.tokens):
            assert (
                not any(
                    tokens[:-1] == node.tokens for tokens in kept if len(tokens) == node.fell_at + 1
                )
                or node.lines
            )
    assert n_fallen > 3


def test_a_beam_of_one_is_the_greedy_line(loaded: LoadedModel) -> None:
    tree = grown(loaded, Beam(1))
    assert tree.ends["beam"] == tree.ends["greedy"]


def test_a_width_that_cannot_be_drawn_is_refused(translator: LoadedModel) -> None:
    with pytest.raises(InputProblem) as caught:
        finished(grow(translator, TEXT, Beam(99), {}))
    assert caught.value.key == "bad_number"


# How it is drawn


def node(
    parent: int | None, score: float = 0.0, fell: bool = False, beam: bool = False
) -> TreeNode:
    lines = ("beam",) if beam else ()
    return TreeNode(
        "<i>", "<i>", parent, 0.5, -1.0, score, False, (1, -1.0) if fell else None, lines
    )


def test_no_two_circles_stand_in_one_place_and_the_answer_runs_straight() -> None:
    nodes = [
        node(None, beam=True),  # 0
        node(None, fell=True),
        node(0, score=9),
        node(0, beam=True),
        node(0, fell=True),
        node(2),  # 5
        node(3, beam=True),
        node(3, fell=True),
        node(2, fell=True),
    ]
    head, _ = unpack(pack_tree_view(nodes, words=WORDS))
    places = [(each["column"], each["row"]) for each in head["nodes"]]
    assert len(set(places)) == len(places)
    assert [places[at] for at in (0, 3, 6)] == [(0, 0), (1, 0), (2, 0)]
    for each, (column, row) in zip(head["nodes"], places, strict=True):
        if each["parent"] is not None:
            assert column == places[each["parent"]][0] + 1
            assert row >= places[each["parent"]][1]
    assert head["nodes"][0]["children"][0] == 3
    assert head["nodes"][1]["fell"] == [1, -1.0]


def test_a_parent_must_come_first() -> None:
    with pytest.raises(ValueError, match="node 1 has parent 1"):
        pack_tree_view([node(None), node(1)], words=WORDS)
