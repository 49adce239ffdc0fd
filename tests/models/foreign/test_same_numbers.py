"""Models of other libraries give the numbers that `transformers` computed for them.

The golden files are written by `benchmarks/parity.py`. All norms and biases are scattered, all
positions are compared, and each text is read alone, padded on either side, and with a cache.
"""

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign import (
    COPIED,
    COPIES,
    GOLDEN,
    NAMES,
    TEXTS,
    Golden,
    change_config,
    change_weights,
    family_list,
    own_numbers,
    refused,
    weights,
)
from safetensors.torch import load_file, save_file

from benchmarks.foreign_models import MODELS
from explorer.runs.run import run
from models.cache import KVCache
from models.decoding import best, decode
from models.fast import lay_out_for_decoding
from models.foreign import look, open_folder
from models.foreign.elsewhere import GenerationRules, RefillingBeam, asked_in
from models.marks import Marks
from models.positions import frequencies
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


def _row(golden: Golden, model: Model, text: str) -> Rows:
    tgt, src = _ids(golden, text)
    return Rows.of([tgt], [src] if "src" in model.reads else None)


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
    ours = run(model, _row(golden, model, text), expected)
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
    rows = _row(golden, model, "first")
    cache, logits, done = KVCache(model.config.n_layers), [], 0
    with torch.inference_mode():
        memory = model.memory_of(rows)
        for n in steps:
            new = Rows(rows.tgt[:, done : done + n], None, rows.src, rows.src_valid)
            logits.append(model.read(new, memory, cache))
            done += n
    assert done == rows.tgt.shape[1]
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
    rows = _row(golden, model, "second")
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
    ours = run(model, _row(golden, model, "second"), expected)
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


# A stored tensor that usually copies another one, with numbers of its own: it is used, as there.
def folder_with(name: str, path: Path, **tensors: torch.Tensor) -> Path:
    """A golden model as a folder, with more tensors in its file."""
    folder = Golden.load(name).write(path / "tiny")
    change_weights(folder, lambda stored: stored.update(tensors))
    return folder


def logits(golden: Golden, model: Model) -> np.ndarray:
    return model.read(_row(golden, model, "first"))[0].numpy()


@pytest.mark.parametrize(("name", "tensor", "copied"), COPIES)
def test_it_is_used_where_it_differs_and_an_equal_one_changes_nothing(
    name, tensor, copied, tmp_path
):
    golden = Golden.load(name)
    own = own_numbers(tensor, golden.tensors()[copied])
    folder = folder_with(name, tmp_path, **{tensor: own})
    model = open_folder(folder).model
    with np.load(COPIED) as file:
        expected = file[f"{name}/{tensor}"]
    _close(logits(golden, model), expected, tensor)
    usual = golden.arrays["first/hook_logits"]
    assert np.abs(usual - expected).max() > 0.01 * np.abs(usual).max(), "the copy matters"
    assert look(folder).n_layers == 2
    folder = folder_with(name, tmp_path / "equal", **{tensor: golden.tensors()[copied].clone()})
    model = open_folder(folder).model
    _close(logits(golden, model), usual, tensor)
    assert model.config.tie_embeddings


def test_a_stored_table_of_positions_is_used(tmp_path):
    table = weights("another table", (40, 24))
    names = {
        f"model.{stack}.embed_positions.weight": table + i
        for i, stack in enumerate(("encoder", "decoder"))
    }
    model = open_folder(folder_with("marian", tmp_path, **names)).model
    assert torch.equal(model.get_parameter("encoder.positions.weight"), table)
    assert torch.equal(model.get_parameter("decoder.positions.weight"), table + 1)


@pytest.mark.parametrize("name", ["llama", "llama-linear", "gpt_neox", "gemma3_text"])
def test_stored_angles_must_be_those_of_the_config(name, tmp_path):
    """`transformers` ignores them, so another base would be lost in silence."""
    config = open_folder(folder_with(name, tmp_path)).config
    angles = frequencies(config.rotary_dim or config.d_head, config.rope_base)
    owner = "gpt_neox.layers.0.attention" if name == "gpt_neox" else "model.layers.0.self_attn"
    tensor = f"{owner}.rotary_emb.inv_freq"
    divisors = config.rope_scaling and config.rope_scaling.divisors
    scaled = angles / torch.tensor(divisors) if divisors else angles
    for right in (angles.half(), scaled.float()):
        open_folder(folder_with(name, tmp_path, **{tensor: right}))
    for wrong in (angles / 2, angles[:-1], angles.flip(0)):
        folder = folder_with(name, tmp_path, **{tensor: wrong.float()})
        refused(folder, "inv_freq contains rotation angles that differ")


def test_a_copy_that_is_no_number_is_refused(tmp_path):
    broken = torch.full((61, 24), torch.nan)
    folder = folder_with("llama-tied", tmp_path, **{"lm_head.weight": broken})
    refused(folder, "lm_head.weight contains NaN or infinity")


@pytest.mark.parametrize(
    ("name", "architecture", "lacking"),
    [
        ("llama", "LlamaModel", ("lm_head.weight",)),
        ("gpt_neox", "GPTNeoXModel", ("embed_out.weight",)),
        ("marian", "MarianModel", ("final_logits_bias",)),
        ("mt5", "MT5Model", ("lm_head.weight",)),
    ],
)
def test_a_base_model_opens_without_an_output(name, architecture, lacking, tmp_path):
    golden = Golden.load(name)
    folder = golden.write(tmp_path / "tiny")
    tensors = load_file(folder / "model.safetensors")
    for key in lacking:
        tensors.pop(key)
    for prefix in ("model.", "gpt_neox."):
        tensors = {key.removeprefix(prefix): each for key, each in tensors.items()}
    save_file(tensors, folder / "model.safetensors")
    for named in ([architecture], "absent"):
        change_config(folder, architectures=named, tie_word_embeddings=name == "marian")
        model = open_folder(folder).model
        ours = model.config
        assert (ours.lm_head, ours.generates, ours.fills) == (False, False, False)
        assert logits(golden, model).shape == (14, 0)
    change_config(folder, architectures=golden.config.get("architectures", "absent"))
    refused(folder, "does not contain ", lacking[0])  # a class with a head


# How a model is run elsewhere: the answers of `transformers`, and what a folder asks for.
CASES: list[tuple[str, int, dict[str, Any], list[int], float]] = json.loads(
    (GOLDEN / "elsewhere.json").read_text("utf-8")
)
ANSWERED = sorted({name for name, *_ in CASES})
CORE = ("gpt2", "marian")
SOURCES = [[4, 9, 33, 12, 8, 1], [50, 21, 7, 7, 19, 40, 1]]  # of benchmarks/elsewhere.py
LIMIT = 12
BEAM = ("num_beams", "length_penalty", "early_stopping")


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> dict[str, Model]:
    """The golden models with the marks that the answers were made with."""
    found = {}
    for name in ANSWERED:
        model = open_folder(Golden.load(name).write(tmp_path_factory.mktemp(name))).model
        model.marks = Marks(pad=0, start=0 if "src" in model.reads else None, end=1)
        found[name] = model
    return found


def rules_of(settings: dict[str, Any], folder: Path) -> GenerationRules:
    (folder / "generation_config.json").write_text(json.dumps(settings))
    asked = asked_in(folder, {}, 61)
    assert asked.ignored == ()
    return asked.rules


@pytest.mark.parametrize("kind", ["beams", "rules"])
@pytest.mark.parametrize(
    ("name", "every"),
    [(name, 3) for name in CORE]
    + [pytest.param(name, 1, marks=pytest.mark.sweep) for name in ANSWERED],
)
def test_the_answers_of_transformers(opened, name, every, kind, tmp_path):
    """Of each core model every third case."""
    cases = [case for case in CASES if case[0] == name]
    cases = [case for case in cases if (kind == "beams") == (set(case[2]) == set(BEAM))]
    assert len(cases) >= 30
    for _, at, settings, tokens, score in cases[::every]:
        width = settings.get("num_beams", 1)
        beam = RefillingBeam(
            width, settings.get("length_penalty", 1.0), settings.get("early_stopping", False)
        )
        rules = rules_of({k: v for k, v in settings.items() if k not in BEAM}, tmp_path)
        strategy = beam if width > 1 else Padding()
        source = torch.tensor([SOURCES[at]])
        (found,) = best(decode(opened[name], source, strategy, LIMIT, rules=rules))
        assert list(found.tokens) == tokens[: len(found.tokens)], settings
        assert set(tokens[len(found.tokens) :]) <= {0}, settings  # the rest is padding
        if width > 1:
            assert found.score == pytest.approx(score, abs=2e-5), settings


class Padding(Greedy):
    """Greedy, where padding is a token like any other, as elsewhere."""

    may_pad = True


def test_each_rule_by_hand():
    scores = torch.tensor([[2.0, -1.0, 1.0, 0.0]])
    row = torch.tensor([[3, 0, 1, 0]])

    def ruled(prompt: int = 1, limit: int = 9, **fields: Any) -> list[float]:
        return GenerationRules(**fields).applied(scores, row, prompt, limit, (3,))[0].tolist()

    low = -math.inf
    assert ruled(repetition_penalty=2.0) == [1.0, -2.0, 1.0, 0.0]
    assert ruled(no_ngram=2) == [2.0, low, 1.0, 0.0], "0 1 is there"
    assert ruled(no_ngram=1) == [low, low, 1.0, low]
    assert ruled(forbidden=((2,), (0, 3), (1, 1))) == [2.0, -1.0, low, low]
    assert ruled(never=(0,)) == [low, -1.0, 1.0, 0.0]
    assert ruled(prompt=4, not_first=(0,)) == [low, -1.0, 1.0, 0.0]
    assert ruled(prompt=3, not_first=(0,)) == scores[0].tolist()
    assert ruled(forced_last=2, limit=4) == [low, low, 0.0, low]
    assert ruled(min_new_tokens=4) == [2.0, -1.0, 1.0, low]
    assert ruled(forced_first=2) == scores[0].tolist(), "it is not the first any more"
    assert ruled(never=(0, 1, 2, 3)) == scores[0].tolist(), "something has to follow"
    assert not GenerationRules()


def test_what_a_folder_asks_for_is_applied_or_named(tmp_path):
    said = {
        "repetition_penalty": 1.3,
        "forced_eos_token_id": 0,
        "num_beams": 4,
        "temperature": 0.6,
        "top_k": 50,
        "max_length": 200,
        "encoder_repetition_penalty": 1.5,
        "something_new": [1, 2],
        "suppress_tokens": [10**6],
        "bad_words_ids": None,
    }
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    asked = asked_in(tmp_path, {}, 61)
    assert asked.rules == GenerationRules(repetition_penalty=1.3, forced_last=0)
    assert asked.applied == ("repetition_penalty = 1.3", "forced_eos_token_id = 0")
    assert asked.chosen == ("num_beams = 4", "temperature = 0.6")
    assert asked.ignored == (
        "encoder_repetition_penalty = 1.5",
        "something_new = [1, 2]",
        "suppress_tokens = [1000000]",
    )
    (tmp_path / "generation_config.json").unlink()
    older = asked_in(tmp_path, {"bad_words_ids": [[59]], "num_beams": 6, "d_model": 3}, 61)
    assert older.rules == GenerationRules(forbidden=((59,),))
    assert older.chosen == ("num_beams = 6",)
