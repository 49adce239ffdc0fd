"""An atlas made in shards: the same bits by any number of processes, and nothing lost by a kill."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from explorer.__main__ import main
from explorer.analysis.atlas import ablation, make, reading as corpus
from explorer.analysis.atlas.ablation import GROUP, cost_sums
from explorer.analysis.atlas.make import Making
from explorer.analysis.atlas.reading import batch_of, encode, scan
from explorer.analysis.atlas.store import (
    NORMAL,
    SOMETIMES,
    Atlas,
    Kind,
    Name,
    Text,
    alike_by_chance,
    name_of,
    read_atlas,
    to_json,
)
from explorer.analysis.circuits.chance import copy_of, shuffle
from explorer.analysis.heads.ablation import ablate
from explorer.analysis.roles import MEASURES
from explorer.exhibits.atlas import measured as finding
from explorer.exhibits.atlas.compared import texts_of
from explorer.exhibits.atlas.measured import lines_of_texts, measured, one_by_one
from explorer.exhibits.atlas.moments import appears, grown
from explorer.library import open_model
from explorer.numerics import student
from explorer.problems import InputProblem
from explorer.runs.passes import walked
from explorer.runs.trace import trace
from models.hooks import Role
from models.training.home import asset

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _two_lines_a_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "LINES", 2)


def test_any_number_of_processes_gives_the_same_bits(model, made, pairs, tmp_path) -> None:
    files = [made(model, pairs, tmp_path / f"of{n}", n).file.read_bytes() for n in (1, 2, 3)]
    assert files[0] == files[1] == files[2]
    atlas = read_atlas(tmp_path / "of1" / "atlas.json")
    assert atlas.counts["sentences"] == 5
    assert to_json(atlas).encode() == files[0]
    assert atlas.cost_sentences == 4
    assert atlas.texts[atlas.best[0][0]].credit.startswith("person")


def test_only_what_is_missing_or_cannot_be_read_is_computed(model, made, pairs, tmp_path) -> None:
    whole = made(model, pairs, tmp_path / "whole").file.read_bytes()
    making = Making(model, scan(pairs), tmp_path / "killed", ablate=4)
    making.begin()
    making.write(making.units[0])
    making.write(making.units[2])
    half = making.folder / f"sums-00000.npz.77{make.PART}"
    half.write_bytes(b"half a shard")
    again = Making(model, scan(pairs), tmp_path / "killed", ablate=4)
    again.begin()
    assert not half.exists()
    missing = list(again.missing())
    names = [unit.name for at, unit in enumerate(making.units) if at not in (0, 2)]
    assert [unit.name for unit in missing] == names
    for unit in missing:
        again.write(unit)
    assert again.finish().read_bytes() == whole
    broken = again.path(again.units[1])
    broken.write_bytes(broken.read_bytes()[:500])
    told = []
    assert again.finish(told.append).read_bytes() == whole
    assert told == [again.units[1]]


def test_another_file_or_other_weights_share_no_shard(model, made, pairs, tmp_path) -> None:
    first = made(model, pairs, tmp_path / "out")
    assert first.changed() is None
    pairs.write_text(pairs.read_text(encoding="utf-8") + "One more.\t又一个。\n", encoding="utf-8")
    second = Making(model, scan(pairs), tmp_path / "out", ablate=4)
    assert second.changed() == first.corpus.digest
    assert len(second.missing()) == len(second.units)
    assert len(second.others()) == len(first.units)
    made(model, pairs, tmp_path / "out")
    assert second.others() == []
    assert read_atlas(second.file).counts["sentences"] == 6
    (model.folder / "model.safetensors").write_bytes(b"others")
    third = Making(model, scan(pairs), tmp_path / "out", ablate=4)
    assert len(third.missing()) == len(third.units)
    assert third.changed() is None


def test_a_full_disk_or_missing_shards_say_how_far_it_is(model, pairs, tmp_path, monkeypatch):
    making = Making(model, scan(pairs), tmp_path / "out", ablate=4)
    making.begin()
    making.write(making.units[0])
    n_units = len(making.units)
    with pytest.raises(InputProblem) as caught:
        making.finish()  # other machines wrote them elsewhere
    assert (caught.value.key, caught.value.values["count"]) == ("shards_elsewhere", n_units - 1)

    def full(file: object, **arrays: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(InputProblem) as caught:
        making.write(making.units[1])
    assert caught.value.key == "no_room"
    assert (caught.value.values["done"], caught.value.values["total"]) == (1, n_units)
    assert list(making.folder.glob(f"*{make.PART}")) == []
    monkeypatch.undo()


def test_lines_with_too_many_tokens_are_counted_and_a_file_of_them_is_refused(
    model, made, tmp_path
) -> None:
    path = tmp_path / "long.txt"
    path.write_text("The cat sat.\n" + "cat " * 400 + "\n", encoding="utf-8")
    atlas = read_atlas(made(model, path, tmp_path / "out").file)
    assert (atlas.counts["sentences"], atlas.counts["too_long"]) == (1, 1)
    path.write_text("cat " * 400 + "\n", encoding="utf-8")
    with pytest.raises(InputProblem, match="nothing_measured"):
        made(model, path, tmp_path / "none")


def test_a_translator_reads_its_own_translation_where_the_file_has_none(shipped) -> None:
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


def test_an_atlas_of_anybody_is_read_or_refused(model, made, pairs, tmp_path) -> None:
    path = made(model, pairs, tmp_path / "out").file
    record = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(read_atlas(path), Atlas)
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
    assert main([*command, "--out", str(folder / "atlas")]) == 0
    assert "resuming" in capsys.readouterr().err
    measured = json.loads((folder / "atlas" / "atlas.json").read_bytes())
    assert measured["counts"]["sentences"] == 2 * json.loads(made)["counts"]["sentences"]
    assert main([*command[:3], str(tmp_path / "no.tsv")]) == 2
    pairs.write_text("", encoding="utf-8")
    assert main(command) == 2


@pytest.mark.sweep
def test_torchrun_with_two_processes_gives_the_same_file(pairs, tmp_path) -> None:
    command = ["explorer", "atlas", "copy", "--data", str(pairs), "--ablate=2", "--out"]
    files = []
    for n in (1, 2):
        torchrun = ["torch.distributed.run", "--standalone", f"--nproc-per-node={n}", "-m"]
        out = tmp_path / str(n)
        run = [sys.executable, "-m", *torchrun, *command, str(out)]
        subprocess.run(run, cwd=ROOT, check=True, capture_output=True)
        files.append((out / "atlas.json").read_bytes())
    assert files[0] == files[1]


# Atlases of sentences at hand, where an atlas is found, the search, and moments of a training.
TEXTS = (
    Text("The cat sat on the mat.", "猫坐在垫子上。", "me"),
    Text("I love you.", "我爱你。"),
    Text("A dog ran after the cat, and the cat ran away.", "狗追着猫跑，猫跑开了。"),
)


def test_an_atlas_of_sentences_at_hand_is_that_of_a_file_of_them(model, made, tmp_path) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text("\n".join(f"{t.source}\t{t.target}" for t in TEXTS), encoding="utf-8")
    stored = finding.read_atlas(made(model, path, tmp_path / "out", ablate=3).file)
    told: list[tuple[int, int]] = []
    here = walked(measured(model, TEXTS), lambda *step: told.append(step))
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
    found = walked(measured(writer, TEXTS))
    low, high = found.ends
    assert len(low) == 8
    wider = (high - found.cost) / (found.high - found.cost)
    np.testing.assert_allclose(wider, 12.590 / NORMAL, rtol=1e-4)
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
        found = walked(measured(loaded, texts[:GROUP]))
        others = encode(loaded, lines_of_texts(texts))[0]
        sums = cost_sums(loaded, batch_of(loaded, others[GROUP:]))
        true, (low, high) = sums[:, 1] / sums[:, 0], found.ends
        missed += bool(((true < low) | (true > high)).any())
        alone += bool(((true < found.low) | (true > found.high)).any())
    print("missed", missed, "without the correction", alone)
    assert missed <= 5 < alone


def test_texts_one_by_one_are_the_atlas_of_each_alone(translator, writer) -> None:
    rare = walked(measured(translator, TEXTS, ablate=False)).rare
    found = one_by_one(translator, (*TEXTS, Text("cat " * 300)), rare)
    alone = walked(measured(translator, TEXTS[1:2], ablate=False))
    known = [MEASURES.index(name) for name in ("previous", "first", "spread", "alignment")]
    np.testing.assert_allclose(found.strengths[1][:, known], alone.strengths[:, known], atol=1e-6)
    assert found.tokens[3] == 0
    assert np.isnan(found.strengths[3]).all()
    with pytest.raises(InputProblem) as caught:
        walked(measured(writer, (Text("cat " * 300),)))
    assert caught.value.values["too_long"] == 1


def test_an_atlas_lies_beside_the_model_or_where_the_environment_says(
    model, made, tmp_path, monkeypatch
) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("The cat sat.\nI love you.\n", encoding="utf-8")
    assert finding.find_atlas(model).atlas is None
    making = made(model, path, finding.home_of(model), ablate=0)
    found = finding.find_atlas(model)
    assert found.atlas is not None
    assert found.path == making.file
    weights = model.folder / "model.safetensors"
    known = weights.read_bytes()
    weights.write_bytes(b"trained further")
    found = finding.find_atlas(model)
    assert (found.atlas, found.stale, found.path) == (None, True, making.file)
    weights.write_bytes(known)
    before = finding.stamp_of(model)
    elsewhere = tmp_path / "atlases" / "writer"
    shutil.move(finding.home_of(model), elsewhere)
    assert finding.find_atlas(model).atlas is None
    monkeypatch.setenv(finding.VARIABLE, os.pathsep.join(["/nowhere", str(elsewhere.parent)]))
    assert finding.find_atlas(model).path == elsewhere / "atlas.json"
    assert finding.stamp_of(model) != before
    (elsewhere / "atlas.json").write_text("{", encoding="utf-8")
    broken = finding.find_atlas(model)
    assert (broken.atlas, broken.problem.key) == (None, "broken_atlas")


def test_models_that_are_files_of_one_folder_have_an_atlas_each(model, tmp_path) -> None:
    files = []
    for name in ("one", "two"):
        (tmp_path / f"{name}.gguf").write_bytes(name.encode())
        single = replace(model, name=name, folder=tmp_path / f"{name}.gguf")
        files.append(next(finding.places(single)))
    assert files == [tmp_path / "atlas" / f"atlas-{name}.json" for name in ("one", "two")]
    snapshot = replace(model, name="writer@200")
    assert next(finding.places(snapshot)) == model.folder / "atlas" / "atlas@200.json"


def test_what_is_compared_and_followed_by_hand() -> None:
    best = SimpleNamespace(best=((3, 1), (3, 2, 0), ()), texts="abcd")
    assert texts_of(best, 3) == ("d", "b", "c")
    assert appears([False, True, False, True, True]) == 3
    assert appears([True, True]) == 0
    assert appears([True, False]) is None
    strengths = np.zeros((3, len(MEASURES)))
    strengths[-1, MEASURES.index("spread")] = 1.0
    strengths[-1, MEASURES.index("same")] = 0.4
    strengths[0, MEASURES.index("first")] = 0.3
    strengths[-1, MEASURES.index("first")] = 0.6
    assert grown(strengths) == "same"


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


def test_names_in_common_by_chance_and_without_a_single_row() -> None:
    """Two spread heads and a mixed one: of six orders, two keep all three, four keep one."""
    kinds: list[Kind] = ["spread", "spread", "mixed"]
    expected = (2 * 3 + 4 * 1) / 6
    assert alike_by_chance([("decoder", kind, kind) for kind in kinds]) == pytest.approx(expected)
    apart: list[tuple[Role, Kind, Kind]] = [
        ("cross", "spread", "spread"),
        ("encoder", "first", "spread"),
    ]
    assert alike_by_chance(apart) == 1, "only heads of the same role count"
    nothing, rows = np.full(len(MEASURES), np.nan), np.zeros(len(MEASURES), np.int64)
    assert name_of("encoder", nothing, rows, nothing) == Name("mixed", "first", 0.0)


@pytest.mark.parametrize("name", ["stories", "masked-en"])
def test_with_random_weights_most_heads_spread_and_a_few_have_a_key(name) -> None:
    """As the page says of them; of trained models it says how many have a key."""
    loaded = open_model(name)
    copy = copy_of(loaded.model)
    shuffle(copy, torch.Generator().manual_seed(1))
    sentences = ("I like the old book.", "She went to the park.", "Once upon a time, it was cold.")
    steps = measured(replace(loaded, model=copy), [*map(Text, sentences)], ablate=False)
    found = walked(steps)
    kinds = Counter(each.kind for each in found.names)
    others = kinds.total() - kinds["spread"] - kinds["mixed"]
    assert kinds["spread"] > 0.6 * kinds.total()
    assert others <= 0.3 * kinds.total()
