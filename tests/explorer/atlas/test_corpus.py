"""Files of sentences and pairs: shards, hashes, and what cannot be used."""

import hashlib
from pathlib import Path

import pytest

from explorer.analysis.atlas import corpus
from explorer.analysis.atlas.corpus import Line, line_at, lines_of, parse, scan
from explorer.problems import InputProblem


def file(folder: Path, content: bytes) -> Path:
    path = folder / "texts.txt"
    path.write_bytes(content)
    return path


def test_shards_cut_a_file_between_lines_and_hold_all_of_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(corpus, "LINES", 2)
    path = file(tmp_path, b"one\n\ntwo\nthree\n<|endoftext|>\nfour\nfive")
    found = scan(path)
    assert found.n_lines == 5
    assert [(s.start, s.end) for s in found.shards] == [(0, 9), (9, 34), (34, 38)]
    assert found.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    read = [line for shard in found.shards for line in lines_of(found, shard).read]
    assert [line.source for line in read] == ["one", "two", "three", "four", "five"]
    assert all(line_at(path, line.offset) == line for line in read)


def test_the_sample_is_of_the_smallest_hashes_wherever_the_lines_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "SAMPLE", 4)
    lines = [f"line {n}\n".encode() for n in range(50)]
    chosen = []
    for order in (lines, lines[::-1]):
        path = file(tmp_path, b"".join(order))
        sources = [line_at(path, at) for at in scan(path).sample]
        chosen.append([line.source for line in sources if line])
    assert chosen[0] == chosen[1]
    by_hash = sorted(lines, key=lambda line: hashlib.blake2b(line, digest_size=8).digest())
    assert chosen[0] == [line.decode().strip() for line in by_hash[:4]]


def test_columns_are_a_source_its_translation_and_whom_to_credit() -> None:
    assert parse(3, "a b\tc\tme\tmore\n") == Line(3, "a b", "c", "me")
    assert parse(3, "a\tc\n", reverse=True) == Line(3, "c", "a", "")
    assert parse(0, "  a\u202e  b ") == Line(0, "a b")
    assert parse(0, "\ttarget alone") is None
    assert parse(0, "\u202e\n") is None


def test_an_empty_file_and_one_in_utf_16_are_refused(tmp_path: Path) -> None:
    for content, key in ((b"", "file_empty"), (b"\n \n", "file_empty")):
        with pytest.raises(InputProblem) as caught:
            scan(file(tmp_path, content))
        assert caught.value.key == key
    for content in ("two words".encode("utf-16"), b"a\0b"):
        with pytest.raises(InputProblem) as caught:
            scan(file(tmp_path, content))
        assert caught.value.key == "file_encoding"


def test_a_line_far_too_long_and_one_that_is_no_utf_8_are_counted(tmp_path: Path) -> None:
    path = file(tmp_path, b"one\n" + b"x" * 200_000 + b"\n\xff\xfe\xfa broken\nlast\n")
    found = scan(path)
    lines = lines_of(found, found.shards[0])
    assert [line.source for line in lines.read] == ["one", "last"]
    assert (lines.too_long, lines.unreadable) == (1, 1)
    assert line_at(path, 4) is None
    assert found.digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_that_changes_after_it_was_scanned_is_noticed(tmp_path: Path) -> None:
    path = file(tmp_path, b"one\ntwo\n")
    found = scan(path)
    path.write_bytes(b"one\ntvo\n")
    with pytest.raises(InputProblem) as caught:
        lines_of(found, found.shards[0])
    assert caught.value.key == "file_changed"


def test_one_sentence_is_a_corpus(tmp_path: Path) -> None:
    found = scan(file(tmp_path, "\ufeffone sentence".encode()))
    assert found.n_lines == len(found.shards) == 1
    assert lines_of(found, found.shards[0]).read == [Line(0, "one sentence")]
