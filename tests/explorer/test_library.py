"""The shelf: the shipped models, and those of one's own that HEADLIGHT_MODELS adds."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from foreign import Golden
from safetensors.torch import load_file, save_file

import explorer as hl
from explorer import cli, library
from explorer.exhibits.card.facts import MOST_CHARS, card_words, facts, front_matter
from explorer.problems import InputProblem
from explorer.shelf import Listed, survey
from models.foreign.finding import VARIABLE
from models.foreign.placing import DEVICE_VARIABLE, DTYPE_VARIABLE, Placing
from models.training.commands import main as models_main
from models.training.saving import snapshots as kept_snapshots


@pytest.fixture
def shelf(tmp_path, monkeypatch) -> Path:
    """A folder without shipped models, and one of somebody's own: a model and a broken one."""
    shelf = tmp_path / "shipped"
    shelf.mkdir()
    Golden.load("gpt2").write(tmp_path / "own" / "mine@3", "own")
    Golden.load("llama").write(tmp_path / "own" / "broken", "own")
    (tmp_path / "own" / "broken" / "model.safetensors").unlink()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "own"))
    return shelf


def test_a_model_of_ones_own_is_listed_or_refused_by_its_name(shelf):
    assert library.list_models(shelf) == ("broken", "mine@3")
    assert library.snapshots("mine@3", shelf) == ()
    loaded = library.open_model("mine@3", shelf)
    assert (loaded.name, loaded.config.family) == ("mine@3", "decoder-only")
    with pytest.raises(InputProblem) as problem:
        library.open_model("broken", shelf)
    assert problem.value.key == "broken_model"
    assert str(problem.value.values["reason"]) == "broken: model.safetensors is missing"
    for name in ("mine", "../own/mine@3", "", str(shelf.parent / "own" / "mine@3")):
        with pytest.raises(InputProblem, match="unknown_model") as problem:
            library.open_model(name, shelf)
        assert problem.value.values["available"] == "broken, mine@3"


def test_names_too_long_are_unknown_models_without_snapshots(shelf, capsys, tmp_path):
    names = ("a" * 1000, Path("a" * 1000), Path("a" * 1000 + ".gguf"))
    for open_one in (lambda name: library.open_model(name, shelf), hl.open_model):
        for name in names:
            with pytest.raises(ValueError, match="aaa"):
                open_one(name)
    assert (
        library.translators(["a" * 1000], shelf) == library.same_vocabulary("a" * 1000, shelf) == ()
    )
    assert models_main(["info", "a" * 1000]) == 1
    assert "no model 'aaa" in capsys.readouterr().err
    assert kept_snapshots(tmp_path / ("x" * 300)) == ()  # the system refuses such a name


def test_commands_work_on_a_folder_and_on_a_name(shelf, tmp_path, capsys):
    for option, model in (([], "mine@3"), (["--model"], str(tmp_path / "own" / "mine@3"))):
        assert cli.main(["info", *option, model]) == 0
        assert "blocks.1.attn: 4 heads" in capsys.readouterr().out
        assert cli.main(["certify", *option, model]) == 0
        assert "All" in capsys.readouterr().out
        more = ["--max-new-tokens", "3", "--beam", "1"]
        assert cli.main(["generate", "--model", model, "I love", *more]) == 0
        assert capsys.readouterr().out.startswith("I love")
        out = tmp_path / "out"
        text = ["--text", "我 the park", "--out", str(out)]
        assert cli.main(["export", *option, model, *text]) == 0
        with np.load(out / "trace.npz") as saved:
            tokens = json.loads(str(saved["trace.json"]))["tgt_str_tokens"]
        assert tokens[:4] == ["我₁", "我₂", "我₃", "the"]
    for dtype in ("float16", "bfloat16"):
        half = ["generate", "--model", "mine@3", "--dtype", dtype, "I love", *more]
        assert cli.main(half) == 0
    assert cli.main(["translate", "--model", "mine@3", "I love"]) == 2
    assert "it continues a text; use `generate`" in capsys.readouterr().err
    assert cli.main(["info", "broken"]) == 2
    assert "model.safetensors is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "command"),
    [("gpt2", ["generate", "--max-new-tokens", "3"]), ("marian", ["translate"])],
)
def test_commands_apply_the_generation_settings_of_a_folder_or_name_them(
    tmp_path, capsys, name, command
):
    folder = Golden.load(name).write(tmp_path / name, "own")

    def run(**settings: object) -> tuple[str, str]:
        (folder / "generation_config.json").write_text(json.dumps(settings))
        assert cli.main([*command, "--model", str(folder), "I love", "--beam", "1"]) == 0
        return tuple(capsys.readouterr())

    usual, noted = run()
    assert "settings" not in noted
    same, noted = run(temperature=0.6, min_p=0.1)
    assert same == usual
    assert f"generation settings of {name}, not applied: temperature = 0.6, min_p = 0.1" in noted
    other, noted = run(repetition_penalty=9.0)
    assert other != usual
    assert f"generation settings of {name}, applied: repetition_penalty = 9.0" in noted


@pytest.mark.parametrize(
    ("name", "command", "said"),
    [
        ("bert", ["translate", "I"], "it fills in the [MASK]s of a text; use `generate`"),
        ("bert", ["generate", "I"], "write [MASK] for each missing word"),
        ("bert-headless", ["translate", "I"], "it reads a text and writes none"),
        ("bert-headless", ["generate", "I"], "no LM head. `info`, `export` and"),
    ],
)
def test_a_command_that_makes_no_sense_for_a_model_says_so(tmp_path, capsys, name, command, said):
    folder = Golden.load(name).write(tmp_path / name, "own")
    assert cli.main([command[0], "--model", str(folder), *command[1:]]) == 2
    assert said in capsys.readouterr().err


def test_the_app_is_told_where_models_are(tmp_path, monkeypatch, capsys):
    started: list[object] = []
    monkeypatch.setattr("streamlit.web.cli.main", lambda *said, **_: started.append(said))
    for name in (VARIABLE, DEVICE_VARIABLE, DTYPE_VARIABLE):
        monkeypatch.setenv(name, "")
    one, other = tmp_path, tmp_path.parent
    assert cli.main(["app", "--models", str(one), "--models", str(other)]) == 0
    assert os.environ[VARIABLE].split(os.pathsep) == [str(one), str(other)]
    assert len(started) == 1
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gone"))
    assert cli.main(["app"]) == 0
    assert f"{VARIABLE}: there is no folder {tmp_path / 'gone'}" in capsys.readouterr().err
    assert cli.main(["app", "--dtype", "bfloat16", "--server.headless", "true"]) == 0
    assert os.environ[DTYPE_VARIABLE] == "bfloat16"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert cli.main(["app", "--device", "cuda"]) == 2
    assert "torch finds no CUDA GPU here" in capsys.readouterr().err
    assert len(started) == 3


def test_models_with_one_vocabulary_are_known_by_their_files(tmp_path, monkeypatch):
    for name in ("one", "two"):
        Golden.load("marian").write(tmp_path / f"models--org--{name}" / "snapshots" / "a", "own")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert library.translators(["org/one"]) == ("org/one",)
    assert library.same_vocabulary("org/one") == ("org/two",)
    # Twins share one vocabulary, and so do the two translators.
    assert library.same_vocabulary("en-zh") == ("zh-en",)
    assert library.same_vocabulary("stories") == ()
    twins = library.same_vocabulary("twin-right")
    assert {"twin-learned", "twin-right@200"} <= set(twins)
    assert "twin-right" not in twins
    assert not [name for name in twins if not name.startswith("twin-")]
    assert "twin-right" in library.same_vocabulary("twin-right@200")
    for name in ("one", "two"):  # without a tokenizer file
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text('{"vocab_size": 9}')
    assert library.same_vocabulary("one", tmp_path) == ()


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def listed(name: str) -> Listed:
    return next(each for each in survey() if each.name == name)


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "marian", "t5"])
def test_sizes_are_those_of_the_opened_model(own, name):
    folder = Golden.load(name).write(own / "mine", "own")
    told, model = listed("mine"), library.open_model("mine").model
    assert told.problem is None
    assert told.own
    assert told.family == Golden.load(name).config["model_type"]
    config = model.config
    assert (told.n_layers, told.n_heads) == (config.n_layers, config.n_heads)
    parameters = {id(each): each.numel() for each in model.parameters()}
    assert told.parameters == pytest.approx(sum(parameters.values()), rel=0.1)
    assert (told.memory, told.dtype) == (4 * told.parameters, "float32")
    assert told.n_bytes == sum(path.stat().st_size for path in folder.iterdir())


def test_the_memory_is_that_of_the_floats_that_it_computes_in(own, monkeypatch):
    Golden.load("llama").write(own / "mine", "own")
    monkeypatch.setenv(DTYPE_VARIABLE, "bfloat16")
    told = listed("mine")
    assert (told.memory, told.dtype) == (2 * told.parameters, "bfloat16")
    assert library.open_model("mine").model.unembed.weight.dtype == torch.bfloat16
    Golden.load("llama").write(own / "large", "own")
    monkeypatch.setattr(Placing, "memory", property(lambda _: 1000))
    assert "GB in bfloat16; this machine has" in str(listed("large").problem)


def test_shipped_models_are_listed_first_and_no_tensor_is_read(own, monkeypatch):
    first = survey()[0]
    assert not first.own
    assert first.folder.parent == library.CHECKPOINTS
    model = library.open_model(first.name).model
    assert first.parameters == sum(each.numel() for each in model.parameters())
    monkeypatch.setattr("models.foreign.weights.Safetensors.read", None)
    Golden.load("qwen3").write(own / "unread")
    assert listed("unread").parameters > 0


def test_what_headers_and_the_vocabulary_show_is_listed(own):

    def problem(**changes: torch.Tensor) -> str:
        save_file(whole | changes, path)
        return str(listed("mine").problem)

    path = Golden.load("llama").write(own / "mine", "own") / "model.safetensors"
    whole, name = load_file(path), "model.norm.weight"
    assert "norm.weight has shape (5,), which does not match the config" in problem(
        **{name: torch.zeros(5)}
    )
    integers = torch.zeros(24, dtype=torch.int8)
    assert "model.norm.weight contains I8; only" in problem(**{name: integers})
    assert problem() == "None"
    other = Golden.load("gpt2").write(own / "other", "own")
    (own / "mine" / "tokenizer.json").replace(other / "tokenizer.json")
    assert "tokenizer.json: its largest token id is 292" in str(listed("other").problem)
    (other / "tokenizer.json").write_text('{"model": {}}')
    assert "the tokenizer cannot be used: tokenizer.json" in str(listed("other").problem)
    (other / "config.json").unlink()
    assert str(listed("other").problem) == "config.json is missing"


def test_what_changes_on_disk_is_read_again_and_what_is_no_gguf_told(own):
    folder = Golden.load("llama").write(own / "mine")
    assert listed("mine").problem is None
    (folder / "model.safetensors").write_bytes(b"short")
    os.utime(folder / "model.safetensors", (1, 1))
    assert "model.safetensors is not a readable" in str(listed("mine").problem)
    (own / "other.gguf").write_bytes(b"not one")
    assert str(listed("other").problem) == "other.gguf is not a readable GGUF file"


@pytest.mark.parametrize(
    ("changes", "kind", "layers"),
    [
        ({}, "translator", {"encoder": 3, "decoder": 2}),
        ({"family": "decoder-only"}, "writer", {"decoder": 2}),
        ({"family": "encoder-only"}, "filler", {"encoder": 2}),
        ({"family": "encoder-only", "lm_head": False}, "reader", {"encoder": 2}),
    ],
)
def test_each_family(tiny, tmp_path, changes, kind, layers):
    loaded = tiny(**changes)
    config = replace(loaded.config, vocab_size=loaded.tokenizer.vocab_size + 3)
    found = facts(replace(loaded, config=config, folder=tmp_path))
    assert (found.kind, found.layers, found.without_piece) == (kind, layers, 3)
    assert (found.bytes_stored, found.dtypes, found.marks["end"]) == (0, (), "</s>")
    assert set(found.written_in) == {"en", "zh"}
    assert sum(found.written_in.values()) < loaded.tokenizer.vocab_size


def test_files_are_added_up_and_have_their_types_but_for_one_that_is_none(tiny, tmp_path):
    save_file({"a": torch.zeros(4)}, tmp_path / "model-1.safetensors")
    save_file({"b": torch.zeros(4, dtype=torch.bfloat16)}, tmp_path / "model-2.safetensors")
    (tmp_path / "notes.safetensors").write_text("no tensors")
    found = facts(replace(tiny(), folder=tmp_path))
    assert found.dtypes == ("BF16", "F32")
    assert found.bytes_stored == sum(path.stat().st_size for path in tmp_path.iterdir())
    (tmp_path / "m.gguf").write_bytes(b"GGUF" * 25)
    found = facts(replace(tiny(), folder=tmp_path / "m.gguf"))
    assert (found.bytes_stored, found.dtypes) == (100, ("GGUF",))


FRONT = """---
license: other
license_name: "my-licence"
language:
- en
- zh
tags: [a, 'b']
---
# Title
"""
EN, ZH = "The card.", "说明卡。"
ONLY_ZH = "这是一张只有中文的说明卡。"
LONG = b"\xff\xfea" + b"b" * MOST_CHARS


@pytest.mark.parametrize(
    ("files", "lang", "told"),
    [
        ({"CARD.md": EN, "CARD.zh.md": ZH, "README.md": "Not this."}, "en", (EN, "en")),
        ({"CARD.md": EN, "CARD.zh.md": ZH, "README.md": "Not this."}, "zh", (ZH, "zh")),
        # Other libraries name it otherwise.
        ({"README.md": EN, "README.zh.md": ZH}, "zh", (ZH, "zh")),
        ({"README.md": EN, "README_zh.md": ZH}, "zh", (ZH, "zh")),
        ({"README.md": EN, "CARD_zh.md": ZH}, "zh", (ZH, "zh")),
        ({"README.md": EN, "CARD_zh.md": ZH}, "en", (EN, "en")),
        # In one language it says which; without words there is none.
        ({"README.md": ONLY_ZH}, "en", (ONLY_ZH, "zh")),
        ({"README.md": "42"}, "en", ("42", None)),
        ({}, "zh", ("", None)),
        ({"CARD.md": ""}, "zh", ("", None)),
        ({"CARD.md": " \n"}, "zh", ("", None)),
        ({"README.md": FRONT}, "en", ("# Title\n", "en", "my-licence", ("en", "zh"))),
        # A long one is cut, one in another encoding read.
        ({"CARD.md": LONG}, "en", ("\ufffd\ufffda" + "b" * (MOST_CHARS - 3), "en")),
        ({"CARD.md": "\ufeff你好".encode()}, "en", ("你好", "zh")),
    ],
)
def test_a_card_is_found_read_and_told_with_its_language(tmp_path, files, lang, told):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    card = card_words(tmp_path, lang)
    found = (card.markdown, card.lang, card.licence, card.languages)
    assert found == (*told, "", ())[:4]
    assert card.is_cut == (files.get("CARD.md") == LONG)


@pytest.mark.parametrize(
    ("text", "values", "words"),
    [
        ("---\nlicense: mit\n---\na", {"license": ["mit"]}, "a"),
        ("---\nlanguage: [en, 'zh']\n...\na", {"language": ["en", "zh"]}, "a"),
        ("---\n- a\n: b\n{{{\n\tlicense: mit\n---\nc", {}, "c"),
        ("---\nlanguage:\n  - en\n  nothing\n---\n", {"language": ["en"]}, ""),
        ("---\nlicense: mit\nnever closed", {}, "---\nlicense: mit\nnever closed"),
        ("words\n---\nlicense: mit\n---\n", {}, "words\n---\nlicense: mit\n---\n"),
        ("---\n---\na", {}, "a"),
        (  # few and short
            f"---\nlicense: {'a' * 999}\nlanguage: [{'en, ' * 99}]\n---\n",
            {"license": ["a" * 60], "language": ["en"] * 12},
            "",
        ),
        ("", {}, ""),
    ],
)
def test_front_matter_may_be_broken(text, values, words):
    assert front_matter(text) == (values, words)
