"""Models of other libraries give the numbers that `transformers` computed for them.

The golden files are written by `benchmarks/parity.py`. All norms and biases are scattered, all
positions are compared, and each text is read alone, padded on either side, and with a cache.
"""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from foreign import GOLDEN, NAMES, TEXTS, Golden, family_list, refused
from safetensors.torch import load_file, save_file

from benchmarks.foreign_models import MODELS
from explorer.runs.run import run
from models.cache import KVCache
from models.decoding import decode
from models.fast import lay_out_for_decoding
from models.foreign import open_folder
from models.rows import Rows, padded
from models.strategies import Greedy
from models.transformer import Model

DOCS = Path(__file__).parents[3] / "docs"
TOLERANCE = 1e-4  # of the largest value


@pytest.fixture(scope="module", params=NAMES)
def golden(request) -> Golden:
    return Golden.load(request.param)


@pytest.fixture(scope="module")
def model(golden, tmp_path_factory) -> Model:
    return open_folder(golden.write(tmp_path_factory.mktemp(golden.name))).model


def _ids(golden: Golden, text: str) -> tuple[list[int], list[int]]:
    return golden.arrays[f"{text}.tgt"].tolist(), golden.arrays[f"{text}.src"].tolist()


def _rows(golden: Golden, model: Model, left: int = 0, right: int = 0) -> Rows:
    """Both texts in one batch, with padding on either side."""
    tgt, src = zip(*(_ids(golden, text) for text in TEXTS), strict=True)
    if "src" in model.reads:
        return Rows(*padded(tgt, 0, left, right), *padded(src, 0, left, right))
    return Rows(*padded(tgt, 0, left, right))


def _expected(golden: Golden, text: str) -> dict[str, np.ndarray]:
    mark = f"{text}/"
    return {k.removeprefix(mark): a for k, a in golden.arrays.items() if k.startswith(mark)}


def _close(ours: np.ndarray, theirs: np.ndarray, what: str) -> None:
    assert ours.shape == theirs.shape, what
    assert np.abs(ours - theirs).max() <= TOLERANCE * np.abs(theirs).max(), what


def test_each_text_holds_twelve_tokens_or_more_and_every_layer_is_compared(golden, model):
    names = set(_expected(golden, "first"))
    for text in TEXTS:
        assert min(map(len, _ids(golden, text))) >= 12
    for stack in model.stacks():
        for layer in range(stack.n_layers):
            assert stack.block_hook(layer, "resid_post") in names
    assert {site.hook("pattern") for site in model.attention_sites()} <= names
    assert ("hook_logits" in names) == model.config.lm_head


@pytest.mark.parametrize("text", TEXTS)
def test_alone(golden, model, text):
    expected = _expected(golden, text)
    tgt, src = _ids(golden, text)
    rows = Rows.of([tgt], [src] if "src" in model.reads else None)
    ours = run(model, rows, expected)
    for name, theirs in expected.items():
        _close(ours[name][0].numpy(), theirs, name)


def test_padding_changes_nothing(golden, model):
    """Both texts in one batch, the shorter one padded on the right, and more on either side."""
    rows = _rows(golden, model, left=2, right=1)
    ours = run(model, rows, lambda name: "." not in name or "resid" in name)
    for row, text in enumerate(TEXTS):
        tgt, src = _ids(golden, text)
        for name, theirs in _expected(golden, text).items():
            if "pattern" not in name:
                n = len(src if name.startswith("encoder.") else tgt)
                _close(ours[name][row, 2 : 2 + n].numpy(), theirs, name)


def test_a_cache_changes_nothing(golden, model):
    steps = (5, 1, 4, 4)
    if not model.config.is_causal or not model.config.lm_head:
        pytest.skip("an encoder keeps no cache, and without logits there is nothing to decode")
    if model.config.cacheable < sum(steps):
        pytest.skip("the angles depend on the length of the row: see the test of decoding")
    tgt, src = _ids(golden, "first")
    rows = Rows.of([tgt], [src] if "src" in model.reads else None)
    cache, logits, done = KVCache(model.config.n_layers), [], 0
    with torch.inference_mode():
        memory = model.memory_of(rows)
        for n in steps:
            new = Rows(rows.tgt[:, done : done + n], None, rows.src, rows.src_valid)
            logits.append(model.read(new, memory, cache))
            done += n
    assert done == len(tgt)
    _close(torch.cat(logits, 1)[0].numpy(), _expected(golden, "first")["hook_logits"], "logits")


@pytest.mark.parametrize("name", [path.stem for path in (GOLDEN / "labels").glob("*.npz")])
def test_a_classification_head_gives_their_labels(name, tmp_path):
    """Both texts in one batch, padded: the labels of each, or of each of its tokens."""
    golden = Golden.load(f"labels/{name}")
    opened = open_folder(golden.write(tmp_path / "tiny"))
    rows = _rows(golden, opened.model, 2, 1)
    read = opened.classifier
    logits = read(opened.model.last_stack.run(rows), rows.valid("tgt"), rows.tgt)
    for row, text in enumerate(TEXTS):
        theirs, n = _expected(golden, text)["labels"], len(_ids(golden, text)[0])
        _close((logits[row, 2 : 2 + n] if theirs.ndim == 2 else logits[row]).numpy(), theirs, name)
    named = ("LABEL_0", "LABEL_1") if name == "albert" else ("bad", "so-so", "good")
    assert read.head.labels == named
    assert read.chances(logits).sum(-1).numpy() == pytest.approx(1, abs=1e-5)
    assert not [each for each in opened.not_shown if "classifier" in each]


def test_made_fast_it_is_the_same(golden, model):
    model = copy.deepcopy(model)
    lay_out_for_decoding(model)
    expected = _expected(golden, "second")
    tgt, src = _ids(golden, "second")
    rows = Rows.of([tgt], [src] if "src" in model.reads else None)
    for keep in (list(expected), [name for name in expected if "pattern" not in name]):
        ours = run(model, rows, keep)
        for name in keep:
            _close(ours[name][0].numpy(), expected[name], name)


def test_of_gemma_3_with_pictures_the_text_model_is_read(tmp_path):
    """The same tensors under the names of a file that also has what reads pictures."""
    golden = Golden.load("gemma3_text-linear")
    folder = golden.write(tmp_path / "tiny")
    path = folder / "model.safetensors"
    tensors = {f"language_model.{name}": each for name, each in load_file(path).items()}
    tensors |= {"vision_tower.vision_model.post_layernorm.bias": torch.zeros(3)}
    tensors |= {"multi_modal_projector.mm_input_projection_weight": torch.zeros(3, 2)}
    save_file(tensors, path)
    whole = {
        "model_type": "gemma3",
        "text_config": json.loads((folder / "config.json").read_text()),
    }
    (folder / "config.json").write_text(json.dumps(whole))
    expected = _expected(golden, "second")
    model = open_folder(folder).model
    assert model.config.rope_scaling is not None
    ours = run(model, Rows.of([_ids(golden, "second")[0]]), expected)
    for name, theirs in expected.items():
        _close(ours[name][0].numpy(), theirs, name)
    for key in ("is_causal", "per_layer_config"):  # not read by the family itself
        changed = whole | {"text_config": whole["text_config"] | {key: {"1": {}}}}
        (folder / "config.json").write_text(json.dumps(changed))
        refused(folder, f"{key} is {{'1': {{}}}}")


@pytest.mark.parametrize("name", ["llama-longrope", "llama-dynamic"])
def test_decoding_reads_all_again_where_the_angles_change(name, tmp_path):
    """13 tokens are the most that keep their angles; of 12 given ones, six more are written."""
    golden = Golden.load(name)
    model = open_folder(golden.write(tmp_path / "tiny")).model
    assert model.config.cacheable == 13
    given = torch.tensor([golden.arrays["second.tgt"].tolist()])
    cached, whole = (
        list(decode(model, given, Greedy(), 6, use_cache=use_cache)) for use_cache in (True, False)
    )
    for one, other in zip(cached, whole, strict=True):
        torch.testing.assert_close(one.log_probs, other.log_probs)


def test_a_decoder_that_begins_with_the_padding_never_writes_it(tmp_path):
    golden = Golden.load("marian")
    model = open_folder(golden.write(tmp_path / "tiny")).model
    assert model.marks.start == model.marks.pad == 0
    model.unembed.bias[0] = 100.0
    src = torch.tensor([golden.arrays["first.src"].tolist()])
    steps = list(decode(model, src, Greedy(), 3))
    assert all(step.log_probs[0, 0] == -torch.inf for step in steps)
    assert 0 not in steps[-1].best[0].tokens
    assert float(model.read(model.begin(src))[0, 0, 0]) > 50, "the logits stay the model's own"


@pytest.mark.parametrize(("lang", "file"), [("en", "own-models.md"), ("zh", "zh/own-models.md")])
def test_the_docs_list_every_family(lang, file):
    text = (DOCS / file).read_text("utf-8")
    listed = text.partition("<!-- families -->")[2].partition("<!--")[0].strip()
    assert listed == family_list(lang)


def test_the_table_of_parity_lists_every_model_that_is_compared():
    table = (DOCS / "parity.md").read_text("utf-8").partition("## Every key")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert [row[0].removeprefix("| ") for row in rows] == list(MODELS)
    numbers = [float(cell) for row in rows for cell in row[1:-1] if cell != "–"]
    assert len(numbers) > 3 * len(MODELS)
    assert max(numbers) < 1e-4
    assert {row[-1] for row in rows} == {"equal |", "– |"}
