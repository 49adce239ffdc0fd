"""An atlas of a file or of sentences at hand, where it is found, and the names of heads."""

import json
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from explorer.__main__ import main
from explorer.analysis.atlas import ablation, reading as corpus, store
from explorer.analysis.atlas.ablation import GROUP, cost_sums
from explorer.analysis.atlas.make import find_atlas, home_of, one_by_one, over_texts, stamp_of
from explorer.analysis.atlas.reading import batch_of, encode
from explorer.analysis.atlas.store import SOMETIMES, Name, Text, name_of, read_atlas, to_json
from explorer.analysis.circuits.chance import copy_of, shuffle
from explorer.analysis.heads.ablation import ablate
from explorer.analysis.roles import MEASURES
from explorer.library import open_model
from explorer.numerics import student
from explorer.problems import InputProblem
from explorer.runs.passes import walked
from explorer.runs.trace import trace
from models.hooks import Role
from models.training.home import asset
from tests.explorer.atlas.test_measures import PAIRS


@pytest.fixture(autouse=True)
def _two_lines_a_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "LINES", 2)


def test_lines_with_too_many_tokens_are_counted_and_a_file_of_them_is_refused(
    model, made, tmp_path
) -> None:
    path = tmp_path / "long.txt"
    path.write_text("The cat sat.\n" + "cat " * 400 + "\n", encoding="utf-8")
    atlas = read_atlas(made(model, path, tmp_path / "out"))
    assert (atlas.counts["sentences"], atlas.counts["too_long"]) == (1, 1)
    path.write_text("cat " * 400 + "\n", encoding="utf-8")
    with pytest.raises(InputProblem, match="nothing_measured"):
        made(model, path, tmp_path / "none")


def test_a_translator_reads_its_own_translation_where_the_file_has_none() -> None:
    shipped = open_model("en-zh")
    lines = [corpus.Line(0, "I love you."), corpus.Line(20, "I know.", "我知道。")]
    encoded, _ = encode(shipped, lines)
    assert encoded[0].tgt == trace(shipped, lines[0].source).tgt_tokens
    assert encoded[1].tgt == trace(shipped, lines[1].source, lines[1].target).tgt_tokens


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only"])
def test_the_cost_of_a_head_is_that_of_the_page_heads(tiny, family) -> None:
    """A mean over two sentences of what each loses a token, by `ablate` of one sentence."""
    loaded = tiny("cost", family=family)
    pairs = (("The cat sat on the mat.", "猫坐在垫子上。"), ("I love you.", "我爱你。"))
    encoded, _ = encode(loaded, [corpus.Line(at, s, t) for at, (s, t) in enumerate(pairs)])
    found = ablation.cost_sums(loaded, batch_of(loaded, encoded))
    costs = []
    for source, target in pairs:
        traced = trace(loaded, source, target if "src" in loaded.model.reads else None)
        deltas = ablate(loaded, traced, traced.tgt_tokens[1:]).token_deltas
        costs.append(np.concatenate([-deltas[site.name].mean(1) for site in loaded.sites]))
    np.testing.assert_allclose(found[:, 1], np.sum(costs, axis=0), atol=1e-5)
    np.testing.assert_allclose(found[:, 2], np.sum(np.square(costs), axis=0), atol=1e-5)
    assert found[:, 0].tolist() == [2.0] * len(found)


def test_an_atlas_is_read_as_it_was_written_and_that_of_anybody_refused(
    model, made, pairs, tmp_path
) -> None:
    path = made(model, pairs, tmp_path / "out")
    atlas = read_atlas(path)
    assert to_json(atlas) == path.read_text(encoding="utf-8")
    assert (atlas.counts["sentences"], atlas.cost_sentences) == (5, 4)
    assert atlas.texts[atlas.best[0][0]].credit.startswith("person")
    record = json.loads(path.read_text(encoding="utf-8"))
    n_heads = len(record["heads"])
    changes = [
        {"format": 99},
        {"best": [[10**6]] * n_heads},
        {"heads": [["nowhere", 0, 0]]},
        {"cost": [1.0]},
        {"near": [[10**6] * 5] * n_heads},
        {"near": [[10**30] * 5] * n_heads},
        {"share": [[1.0]] * n_heads},
        {"cost": [[1.0]] * n_heads},
        {"cost_sentences": float("inf")},
        {"tokens": 10**15},
    ]
    for text in ("{", *(json.dumps(record | change) for change in changes)):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputProblem, match="broken_atlas"):
            read_atlas(path)


def test_the_command_replaces_an_atlas_only_where_that_is_said(pairs, tmp_path, capsys) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(asset("checkpoints", "copy"), folder)
    command = ["atlas", str(folder), "--data", str(pairs), "--ablate=0"]
    assert main(command) == 0
    assert "atlas.json" in capsys.readouterr().out
    made = (folder / "atlas" / "atlas.json").read_bytes()
    twice = pairs.read_text(encoding="utf-8") * 2
    pairs.write_text(f"source\ttarget\n{twice}", encoding="utf-8")
    assert main(command) == 2
    assert f"--out {folder / 'atlas'}" in capsys.readouterr().err
    assert (folder / "atlas" / "atlas.json").read_bytes() == made
    assert main([*command, "--out", str(folder / "atlas")]) == 0
    assert "a header: source, target" in capsys.readouterr().err
    measured = json.loads((folder / "atlas" / "atlas.json").read_bytes())
    assert measured["counts"]["sentences"] == 2 * json.loads(made)["counts"]["sentences"]
    assert main([*command[:3], str(tmp_path / "no.tsv")]) == 2
    pairs.write_text("", encoding="utf-8")
    assert main(command) == 2


TEXTS = [Text(source, target) for source, target in PAIRS]


def test_an_atlas_of_sentences_at_hand_is_that_of_a_file_of_them(model, made, tmp_path) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text("\n".join(f"{t.source}\t{t.target}" for t in TEXTS), encoding="utf-8")
    stored = read_atlas(made(model, path, tmp_path / "out", ablate=3))
    told: list[tuple[int, int]] = []
    here = walked(over_texts(model, TEXTS), lambda *step: told.append(step))
    np.testing.assert_allclose(here.share, stored.share, atol=1e-3)
    np.testing.assert_allclose(here.cost, stored.cost, atol=1e-3)
    assert here.names == pytest.approx(stored.names) or [n.kind for n in here.names] == [
        n.kind for n in stored.names
    ]
    assert told[-1][0] == told[-1][1]


def test_the_intervals_of_all_heads_are_wider_than_that_of_one(writer) -> None:
    """Student's t of 0.05 / 8 with 2 degrees of freedom, from a table: 12.590."""
    assert [round(student(0.05, n), 3) for n in (1, 2, 95)] == [12.706, 4.303, 1.985]
    assert student(0.05 / 8, 2) == pytest.approx(12.590, abs=1e-3)
    found = walked(over_texts(writer, TEXTS))
    low, high = found.ends
    assert len(low) == 8
    wider = (high - found.cost) / (found.high - found.cost)
    np.testing.assert_allclose(wider, 12.590 / store.NORMAL, rtol=1e-4)
    np.testing.assert_allclose(found.cost - low, high - found.cost)


@pytest.mark.sweep
def test_the_intervals_of_untrained_models_miss_a_cost_in_five_of_a_hundred_at_most(tiny) -> None:
    """Each model is measured in GROUP sentences; the costs in 16 times as many are the truth."""
    words, missed, alone = ["the", "cat", "dog", "mat", "ran", "sat", "love", "you"], 0, 0
    for seed in range(100):
        loaded, draw = tiny("untrained", seed, family="decoder-only"), np.random.default_rng(seed)
        texts = [
            Text(" ".join(draw.choice(words, draw.integers(3, 12))) + ".")
            for _ in range(17 * GROUP)
        ]
        found = walked(over_texts(loaded, texts[:GROUP]))
        others = encode(loaded, [corpus.Line(at, each.source) for at, each in enumerate(texts)])[0]
        sums = cost_sums(loaded, batch_of(loaded, others[GROUP:]))
        true, (low, high) = sums[:, 1] / sums[:, 0], found.ends
        missed += bool(((true < low) | (true > high)).any())
        alone += bool(((true < found.low) | (true > found.high)).any())
    print("missed", missed, "without the correction", alone)
    assert missed <= 5 < alone


def test_texts_one_by_one_are_the_atlas_of_each_alone(translator, writer) -> None:
    rare = walked(over_texts(translator, TEXTS, ablate=False)).rare
    found = one_by_one(translator, [*TEXTS, Text("cat " * 300)], rare)
    alone = walked(over_texts(translator, TEXTS[1:2], ablate=False))
    known = [MEASURES.index(name) for name in ("previous", "first", "spread", "alignment")]
    np.testing.assert_allclose(found.strengths[1][:, known], alone.strengths[:, known], atol=1e-6)
    assert np.isnan(found.strengths[3]).all()
    with pytest.raises(InputProblem) as caught:
        walked(over_texts(writer, (Text("cat " * 300),)))
    assert caught.value.values["too_long"] == 1


def test_an_atlas_lies_beside_the_model_whose_weights_it_is_of(model, made, tmp_path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("The cat sat.\nI love you.\n", encoding="utf-8")
    assert find_atlas(model).atlas is None
    before = stamp_of(model)
    file = made(model, path, home_of(model), ablate=0)
    found = find_atlas(model)
    assert found.atlas is not None
    assert found.path == file
    assert stamp_of(model) != before
    (model.folder / "model.safetensors").write_bytes(b"trained further")
    found = find_atlas(model)
    assert (found.atlas, found.stale, found.path) == (None, True, file)
    file.write_text("{", encoding="utf-8")
    broken = find_atlas(model)
    assert (broken.atlas, broken.problem.key) == (None, "broken_atlas")


def test_models_that_are_files_of_one_folder_have_an_atlas_each(model, tmp_path) -> None:
    files = []
    for name in ("one", "two"):
        (tmp_path / f"{name}.gguf").write_bytes(name.encode())
        single = replace(model, name=name, folder=tmp_path / f"{name}.gguf")
        files.append(find_atlas(single).path)
    assert files == [tmp_path / "atlas" / f"atlas-{name}.json" for name in ("one", "two")]
    snapshot = replace(model, name="writer@200")
    assert find_atlas(snapshot).path == model.folder / "atlas" / "atlas@200.json"


NAMES: list[tuple[Role, dict[str, float], Name]] = [
    *(
        ("encoder", {kind: 0.5}, Name(kind, kind, 0.5))
        for kind in ("previous", "same", "next", "first", "last", "spread")
    ),
    ("encoder", {"next": 0.4999}, Name("mixed", "next", 0.4999)),
    ("decoder", {"previous": 0.93, "first": 0.6}, Name("previous", "previous", 0.93)),
    ("decoder", {"previous": 0.6, "first": 0.93}, Name("first", "first", 0.93)),
    # Alignment needs less, and only cross-attention has it.
    ("cross", {"alignment": 0.4, "first": 0.3}, Name("alignment", "alignment", 0.4)),
    ("cross", {"alignment": 0.399, "first": 0.3}, Name("mixed", "first", 0.3)),
    ("cross", {"previous": 0.9, "first": 0.1}, Name("mixed", "first", 0.1)),
    ("decoder", {"alignment": 0.9}, Name("mixed", "previous", 0.0)),
    # What only some rows have names a head if nothing else does.
    *(
        ("decoder", {kind: 0.9, **more}, Name(name or kind, name or kind, share))
        for kind in SOMETIMES
        for more, name, share in (({}, None, 0.9), ({"previous": 0.5}, "previous", 0.5))
    ),
]


@pytest.mark.parametrize(("role", "shares", "expected"), NAMES)
def test_half_of_the_rows_make_a_name_and_the_largest_share_wins(role, shares, expected) -> None:
    share = np.array([shares.get(name, 0.0) for name in MEASURES])
    rows, chance = np.full(len(MEASURES), 1000), np.full(len(MEASURES), 0.2)
    assert name_of(role, share, rows, chance) == expected


@pytest.mark.parametrize("kind", SOMETIMES)
def test_what_some_rows_have_needs_fifty_of_them_and_more_than_chance(kind) -> None:
    """Where most words are rare, attending to one is no trait."""
    share = np.array([0.9 * (name == kind) for name in MEASURES])
    for rows, chance, name in ((50, 0.6, kind), (49, 0.6, "mixed"), (50, 0.601, "mixed")):
        numbers = np.full(len(MEASURES), rows), np.full(len(MEASURES), chance)
        assert name_of("decoder", share, *numbers).kind == name


def test_a_head_without_a_single_row_is_mixed() -> None:
    nothing, rows = np.full(len(MEASURES), np.nan), np.zeros(len(MEASURES), np.int64)
    assert name_of("encoder", nothing, rows, nothing) == Name("mixed", "first", 0.0)


@pytest.mark.parametrize("name", ["stories", "masked-en"])
def test_with_random_weights_most_heads_spread_and_a_few_have_a_key(name) -> None:
    """As the page says of them; of trained models it says how many have a key."""
    loaded = open_model(name)
    copy = copy_of(loaded.model)
    shuffle(copy, torch.Generator().manual_seed(1))
    sentences = ("I like the old book.", "She went to the park.", "Once upon a time, it was cold.")
    steps = over_texts(replace(loaded, model=copy), [*map(Text, sentences)], ablate=False)
    found = walked(steps)
    kinds = Counter(each.kind for each in found.names)
    others = kinds.total() - kinds["spread"] - kinds["mixed"]
    assert kinds["spread"] > 0.6 * kinds.total()
    assert others <= 0.3 * kinds.total()
