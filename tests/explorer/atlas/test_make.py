"""An atlas made in shards: the same bits by any number of processes, and nothing lost by a kill."""

import errno
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from explorer.__main__ import main
from explorer.analysis.atlas import ablation, corpus, make
from explorer.analysis.atlas.corpus import scan
from explorer.analysis.atlas.make import Making
from explorer.analysis.atlas.reading import batch_of, encode
from explorer.analysis.atlas.store import Atlas, read_atlas, to_json
from explorer.analysis.heads.ablation import ablate
from explorer.problems import InputProblem
from explorer.runs.trace import trace
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
