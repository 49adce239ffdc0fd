"""What is learnt: toy tasks, sentences, own pairs and everything that can be wrong with these."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest

from explorer.problems import InputProblem
from explorer.training import pairs, tasks
from explorer.training.setup import Setup
from explorer.training.tasks import BRACKETS, brackets, corpus, sentences, sums


def test_pairs_are_read_and_what_is_left_out_is_counted() -> None:
    text = (
        "a b\tc\nno tab\n\tempty\nempty\t \n\na b\tc\nx\ty\tfurther column\n" + "z" * 201 + "\tw\n"
    )
    found = pairs.read(text)
    assert found.rows == (("a b", "c"), ("x", "y"))
    assert found.counts.left_out == {"no_tab": 1, "empty": 2, "too_long": 1, "doubled": 1}


@pytest.mark.parametrize(
    ("text", "header"),
    [("\nen\tzh\na\tb", 1), ("Source\tTarget\na\tb", 1), ("text\t文本\n", 0), ("a\tb\nen\tzh", 0)],
)
def test_a_row_that_names_both_columns_is_a_header(text: str, header: int) -> None:
    found = pairs.read(text)
    assert found.counts.left_out == ({"header": 1} if header else {})
    assert len(found.rows) + header == len(text.strip().splitlines())


def test_a_hundred_thousand_pairs_are_cut_to_the_first_and_counted() -> None:
    found = pairs.read("".join(f"{n}\t{n + 1}\n" for n in range(100_000)))
    assert len(found.rows) == pairs.MOST_PAIRS
    assert found.counts.too_many == 100_000 - pairs.MOST_PAIRS


def test_one_language_only_is_noticed() -> None:
    assert pairs.read("a\ta\nb\tb").counts.same_sides == 2
    assert pairs.read("only\nsource").counts.no_tab == 2


@pytest.mark.parametrize("text", ["", "only source\nmore", "a\tb"])
def test_fewer_than_two_pairs_are_refused(text: str) -> None:
    with pytest.raises(InputProblem) as refused:
        corpus(Setup(task="own", text=text))
    assert refused.value.key == "training_pairs"


def test_ten_rows_are_learnt_by_heart_and_no_character_is_unknown() -> None:
    text = "".join(f"wort {chr(97 + n)}\tword {chr(107 + n)}\n" for n in range(10))
    found = corpus(Setup(task="own", text=text))
    assert found.by_heart
    assert len(found.rows) == len(found.held_out) == 10
    assert all(not found.tokenizer.unknown(side) for row in found.rows for side in row)


def test_pairs_of_too_many_tokens_are_counted() -> None:
    long = "1234567890" * 10  # every digit is a token
    found = corpus(Setup(task="own", text=f"a b\tb a\nb c\tc b\n{long}\tx\n"))
    assert found.too_long == 1


def test_many_own_pairs_are_read_by_another_process_outside_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [f"wort {n} sagt {n * n}\tword {n} says {n * n}" for n in range(400)]
    setup = Setup(task="own", vocabularies="apart", text="\n".join(lines))
    here = corpus(setup)
    monkeypatch.setattr(tasks, "_corpus", None)  # not in this process
    monkeypatch.setattr(pairs, "read", None)
    turns: list[str] = []

    @contextmanager
    def away() -> Iterator[None]:
        turns.append("left")
        yield
        turns.append("taken")

    apart = corpus(setup, away)
    assert turns == ["left", "taken"]
    assert replace(apart, tokenizer=here.tokenizer) == here
    assert apart.sizes == here.sizes
    assert apart.tokenizer.to_json() == here.tokenizer.to_json()
    corpus(setup, away)
    counts = tasks.counted(setup, away)
    assert counts is not None
    assert (counts.used, counts.same_sides) == (400, 0)
    assert len(turns) == 2, "the result is stored"


def test_a_refusal_of_many_pairs_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "1234567890" * 10  # every digit is a token
    setup = Setup(task="own", text="\n".join(f"{long}{n}\t{long}{n}" for n in range(60)))
    with pytest.raises(InputProblem, match="training_pairs"):
        corpus(setup, nullcontext)
    monkeypatch.setattr(tasks, "ask_once", None)
    with pytest.raises(InputProblem, match="training_pairs"):
        corpus(setup, nullcontext)


def test_pairs_that_take_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "PATIENCE", 0.0)
    lines = (f"eins {n}\tone {n}" for n in range(900))
    with pytest.raises(InputProblem, match="training_heavy"):
        corpus(Setup(task="own", text="\n".join(lines)), nullcontext)


def test_sums_and_brackets_are_right() -> None:
    for question, answer in sums()[:50]:
        one, other = question.replace(" ", "").split("+")
        assert int(one) + int(other) == int(answer.replace(" ", ""))
    for text, rest in brackets()[:50]:
        opened: list[str] = []
        for each in (*text.split(), *rest.split()):
            if each in BRACKETS:
                opened.append(BRACKETS[each])
            else:
                assert opened.pop() == each
        assert not opened


def test_what_is_measured_on_is_never_learnt() -> None:
    for setup in (Setup(task="reverse"), Setup(task="sentences")):
        found = corpus(setup)
        assert not set(found.rows) & set(found.held_out)
    assert len(sentences()) == len(set(sentences()))
    longest = max(len(example.src) for example in corpus(Setup(task="reverse")).examples)
    assert min(len(each.src) for each in corpus(Setup(task="reverse")).longer) > longest
