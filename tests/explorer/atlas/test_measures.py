"""The sums of an atlas against plain loops over the pattern of each sentence by itself."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch

from explorer.analysis.atlas import reading as corpus
from explorer.analysis.atlas.measures import PRIOR, Adding, Sums
from explorer.analysis.atlas.reading import Line
from explorer.analysis.atlas.store import numbers_of
from explorer.analysis.heads.measures import head_measures
from explorer.analysis.roles import BROAD, LACKING, MEASURES, REACH, AttentionRows
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.trace import Trace, trace
from models.hooks import AttentionSite

PAIRS = (
    ("A dog ran after the cat, and the cat ran away.", "狗追着猫跑，猫跑开了。"),
    ("I love you.", "我爱你。"),
    ("The cat sat on the mat.", "猫坐在垫子上。"),
)
AT = {name: at for at, name in enumerate(MEASURES)}


def summed(
    loaded: LoadedModel, pairs: Iterable[tuple[str, str]] = PAIRS
) -> tuple[Sums, list[corpus.Encoded], corpus.Vocabulary]:
    lines = [Line(10 * at, source, target) for at, (source, target) in enumerate(pairs)]
    vocabulary = corpus.vocabulary_of(loaded, lines)
    encoded, too_long = corpus.encode(loaded, lines)
    assert too_long == 0
    adding = Adding(loaded, vocabulary)
    adding.add(corpus.batch_of(loaded, encoded))
    return adding.total(), encoded, vocabulary


def by_hand(
    traced: Trace, site: AttentionSite, head: int, vocabulary: corpus.Vocabulary
) -> dict[str, np.ndarray]:
    """weight, top, rows and chance [measure] of one head over one sentence, cell by cell."""
    pattern, mask = traced.pattern(site.name)[head], traced.mask(site.name)[0]
    is_source = site.key_stream == "src"
    ids = list(traced.src_tokens if is_source else traced.tgt_tokens)
    pieces = traced.src_str_tokens if is_source else traced.tgt_str_tokens
    special = [bool(vocabulary.special[i]) for i in ids]
    cut = [any(piece.startswith("·") for piece in pieces[k : k + 2]) for k in range(len(ids))]
    found = {name: np.zeros(len(MEASURES)) for name in ("weight", "top", "rows", "chance")}
    for q, row in enumerate(pattern):
        seen = [k for k in range(len(ids)) if mask[q, k]]
        if len(seen) < 2:
            continue
        best = int(row.argmax())
        words = [k for k in seen if not special[k]]
        marks = [k for k in words if vocabulary.punctuation[ids[k]]]
        such = {
            "previous": [q - 1],
            "same": [q],
            "next": [q + 1],
            "first": [0],
            "last": [len(ids) - 1],
            "punctuation": marks,
            "rare": [k for k in words if k not in marks and (vocabulary.rare[ids[k]] or cut[k])],
            "repeat": [k for k in words if k != q and ids[k] == ids[q]] if q < len(ids) else [],
            "induction": [
                k for k in seen if 0 < k < q + 1 and k != q
                and ids[k - 1] == ids[q] and not special[k - 1]
            ],
        }  # fmt: skip
        if site.kind == "self" and special[q]:
            such["repeat"] = such["induction"] = []
        for name, those in such.items():
            those = [k for k in those if k in seen]
            if name in LACKING[site.role] or not those:
                continue
            found["weight"][AT[name]] += sum(float(row[k]) for k in those)
            found["top"][AT[name]] += best in those
            found["rows"][AT[name]] += 1
            found["chance"][AT[name]] += len(those) / len(seen)
        entropy = -sum(float(p) * np.log2(p) for p in row if p > 0) / np.log2(len(seen))
        found["weight"][AT["spread"]] += entropy
        found["top"][AT["spread"]] += entropy >= BROAD
        found["rows"][AT["spread"]] += 1
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"family": "decoder-only"},
        {"family": "encoder-only"},
        {"family": "decoder-only", "window": 3, "near_layers": (1,)},
    ],
)
def test_the_sums_are_those_of_plain_loops_over_every_sentence(tiny, changes) -> None:
    loaded = tiny(**changes)
    sums, _, vocabulary = summed(loaded)
    traces = [trace(loaded, s, t if "src" in loaded.model.reads else None) for s, t in PAIRS]
    heads = [(at, site, head) for at, site in enumerate(loaded.sites) for head in range(4)]
    known = slice(0, AT["alignment"])
    for number, (at, site, head) in enumerate(heads):
        each = [by_hand(traced, site, head, vocabulary) for traced in traces]
        expected = {name: sum(one[name] for one in each)[known] for name in each[0]}
        np.testing.assert_allclose(sums.weight[number, known], expected["weight"], atol=1e-4)
        assert sums.top[number, known].tolist() == expected["top"].tolist()
        assert sums.rows[at, known].tolist() == expected["rows"].tolist()
        expected["chance"][9] = 0
        np.testing.assert_allclose(sums.chance[at, known], expected["chance"], atol=1e-4)


def test_alignment_and_distance_are_those_of_the_page_heads(translator) -> None:
    sums, _, _ = summed(translator)
    numbers = numbers_of(sums, translator.sites)
    traces = [trace(translator, s, t) for s, t in PAIRS]
    n_src = [len(traced.src_tokens) for traced in traces]
    heads = [(site, head) for site in translator.sites for head in range(site.n_heads)]
    for number, (site, head) in enumerate(heads):
        found = [head_measures(traced, site.name) for traced in traces]
        if site.kind == "cross":
            shares = [each["alignment"][head] for each in found]
            assert sums.top[number, AT["alignment"]] == sum(each >= 0.5 for each in shares)
            weight = numbers["weight"][number, AT["alignment"]]
            assert weight == pytest.approx(np.mean(shares), abs=1e-5)
            assert np.isnan(numbers["distance"][number])
        if site.role == "encoder":
            for name in ("distance", "entropy"):
                mean = np.average([each[name][head] for each in found], weights=n_src)
                assert numbers[name][number] == pytest.approx(mean, abs=1e-4)


def test_alignment_counts_from_half_of_the_possible_information() -> None:
    heads = torch.stack([torch.eye(4)[at] for at in ([0, 1, 2, 3], [0, 0, 1, 1], [0, 0, 0, 1])])
    seen = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    share = AttentionRows(heads[None], seen, seen[..., 0]).aligned()
    third = (2 - 0.75 * np.log2(3)) / 2  # H(1/4) of 2 bits
    assert share.weight[0].tolist() == pytest.approx([1.0, 0.5, third])
    assert (share.top.tolist(), share.rows.tolist()) == ([1, 1, 0], [[1]])


def test_distances_are_counted_from_end_to_end_and_add_up(writer, translator) -> None:
    text = " ".join([PAIRS[0][0]] * 2)
    sums, _, _ = summed(writer, [(text, "")])
    n = len(trace(writer, text).tgt_tokens)
    assert n > REACH + 4
    bins = range(-REACH, REACH + 1)
    rows = [max(0, n - max(1, -at)) if at <= 0 else 0 for at in bins]
    assert sums.has_offset[1].tolist() == rows
    sums, _, _ = summed(translator)
    first = sum(site.n_heads for site in translator.sites if site.role == "encoder")
    encoder = slice(0, first)
    np.testing.assert_allclose(
        sums.by_offset[encoder, REACH - 1], sums.weight[encoder, AT["previous"]], rtol=1e-6
    )
    rows = np.repeat(sums.n_rows, [site.n_heads for site in translator.sites])
    np.testing.assert_allclose(sums.by_offset.sum(1), rows, rtol=1e-5)


def test_the_nearest_head_is_the_one_with_the_largest_cosine(translator) -> None:
    sums, _, _ = summed(translator)
    numbers = numbers_of(sums, translator.sites)
    traces = [trace(translator, s, t) for s, t in PAIRS]
    crosses = [site for site in translator.sites if site.kind == "cross"]
    flat = np.stack(
        [
            np.concatenate([traced.pattern(site.name)[head].ravel() for traced in traces])
            for site in crosses
            for head in range(site.n_heads)
        ]
    ).astype(np.float64)
    cosine = flat @ flat.T / np.outer(*[np.linalg.norm(flat, axis=1)] * 2)
    np.fill_diagonal(cosine, -1)
    start = sum(site.n_heads for site in translator.sites) - len(flat)
    assert (numbers["near"][start:, 0] - start).tolist() == cosine.argmax(1).tolist()
    np.testing.assert_allclose(numbers["alike"][start:, 0], cosine.max(1), atol=1e-5)


def test_a_sentence_counts_for_more_when_it_is_longer(writer, translator) -> None:
    """What a head gives to the first token, over rows + PRIOR, decides the order of sentences."""
    sums, encoded, _ = summed(writer)
    site = writer.sites[0]
    expected = []
    for each, (source, _) in zip(encoded, PAIRS, strict=True):
        pattern = trace(writer, source).pattern(site.name)[2][1 : len(each.tgt)]
        expected.append((pattern[:, 0].sum() / (len(pattern) + PRIOR), each.offset))
    order = [offset for _, offset in sorted(expected, reverse=True)]
    assert sums.best_line[2, AT["first"], :3].tolist() == order
    assert sums.best_value[2, AT["first"], 0] == pytest.approx(max(expected)[0], abs=1e-6)
    # Of two lines with one source only the better is kept.
    sums, _, _ = summed(translator, (PAIRS[0], PAIRS[1], (PAIRS[0][0], "狗跑。")))
    assert np.isfinite(sums.best_value[-1, AT["first"]]).sum() == 2


def file(folder: Path, content: bytes) -> Path:
    path = folder / "texts.txt"
    path.write_bytes(content)
    return path


def test_a_file_is_read_in_pieces_of_its_examples(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(corpus, "LINES", 2)
    path = file(tmp_path, b"one\n\ntwo\nthree\n<|endoftext|>\nfour\nfive")
    found = corpus.scan(path)
    assert (found.n_lines, found.digest) == (5, hashlib.sha256(path.read_bytes()).hexdigest())
    read = [[line.source for line in piece.read] for piece in corpus.lines_of(found)]
    assert read == [["one", "two"], ["three", "four"], ["five"]]
    lines = [line for piece in corpus.lines_of(found) for line in piece.read]
    assert [corpus.line_at(path, line.offset) for line in lines] == lines
    found = corpus.scan(file(tmp_path, "\ufeffone sentence".encode()))
    assert [piece.read for piece in corpus.lines_of(found)] == [[Line(0, "one sentence")]]


def test_the_sample_is_of_the_smallest_hashes_wherever_the_lines_stand(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(corpus, "SAMPLE", 4)
    lines = [f"line {n}\n".encode() for n in range(50)]
    chosen = []
    for order in (lines, lines[::-1]):
        path = file(tmp_path, b"".join(order))
        sources = [corpus.line_at(path, at) for at in corpus.scan(path).sample]
        chosen.append([line.source for line in sources if line])
    assert chosen[0] == chosen[1]
    by_hash = sorted(lines, key=lambda line: hashlib.blake2b(line, digest_size=8).digest())
    assert chosen[0] == [line.decode().rstrip("\n") for line in by_hash[:4]]


def test_lines_have_columns_and_those_too_long_or_no_utf_8_are_counted(tmp_path) -> None:
    assert corpus.parse(3, b"a b\tc\tme\tmore\n") == Line(3, "a b", "c", "me")
    assert corpus.parse(3, b"a\tc\n", reverse=True) == Line(3, "c", "a", "")
    assert corpus.parse(0, "  a\u202e  b ".encode()) == Line(0, "  a  b ")
    assert corpus.parse(0, "a\t\u3000".encode()) == corpus.parse(0, b"a\t ") == Line(0, "a", "")
    assert corpus.parse(0, b"\ttarget alone") is None
    assert corpus.parse(0, b"en\tzh\n") is None
    assert corpus.parse(9, b"en\tzh\n") == Line(9, "en", "zh")
    assert corpus.parse(0, "\u202e\n".encode()) is None
    path = file(tmp_path, b"one\n" + b"x" * 200_000 + b"\n\xff\xfe\xfa broken\nlast\n")
    found = corpus.scan(path)
    (lines,) = corpus.lines_of(found)
    assert [line.source for line in lines.read] == ["one", "last"]
    assert (lines.too_long, lines.unreadable) == (1, 1)
    assert corpus.line_at(path, 4) is None
    assert found.digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_files_that_are_empty_or_in_utf_16_are_refused(tmp_path) -> None:
    for content, key in (
        (b"", "file_empty"),
        (b"\n \n", "file_empty"),
        ("two words".encode("utf-16"), "file_encoding"),
        (b"a\0b", "file_encoding"),
    ):
        with pytest.raises(InputProblem, match=key):
            corpus.scan(file(tmp_path, content))
