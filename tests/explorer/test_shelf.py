"""What the shelf says of a model without opening it, against the model opened."""

import json
import os
from pathlib import Path

import pytest
import torch
from foreign import Golden

from explorer.library import CHECKPOINTS, open_model
from explorer.shelf import Listed, survey
from models.foreign.finding import VARIABLE
from models.foreign.placing import DTYPE_VARIABLE, Placing


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def listed(name: str) -> Listed:
    return next(each for each in survey() if each.name == name)


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "marian", "t5"])
def test_sizes_are_those_of_the_opened_model(own: Path, name: str) -> None:
    folder = Golden.load(name).write(own / "mine", "own")
    told, model = listed("mine"), open_model("mine").model
    assert told.problem is None
    assert told.own
    assert told.family == Golden.load(name).config["model_type"]
    config = model.config
    assert (told.n_layers, told.n_heads) == (config.n_layers, config.n_heads)
    parameters = {id(each): each.numel() for each in model.parameters()}
    assert told.parameters == pytest.approx(sum(parameters.values()), rel=0.1)
    assert (told.memory, told.dtype) == (4 * told.parameters, "float32")
    assert told.n_bytes == sum(path.stat().st_size for path in folder.iterdir())


def test_the_memory_is_that_of_the_floats_that_it_computes_in(own, monkeypatch) -> None:
    Golden.load("llama").write(own / "mine", "own")
    monkeypatch.setenv(DTYPE_VARIABLE, "bfloat16")
    told = listed("mine")
    assert (told.memory, told.dtype) == (2 * told.parameters, "bfloat16")
    assert open_model("mine").model.unembed.weight.dtype == torch.bfloat16
    Golden.load("llama").write(own / "large", "own")
    monkeypatch.setattr(Placing, "memory", property(lambda _: 1000))
    assert "GB in bfloat16; this machine has" in str(listed("large").problem)


def test_shipped_models_are_listed_first() -> None:
    first = survey()[0]
    assert not first.own
    assert first.folder.parent == CHECKPOINTS
    model = open_model(first.name).model
    assert first.parameters == sum(each.numel() for each in model.parameters())


def test_a_pickle_is_listed_with_the_command_that_converts_it(own: Path) -> None:
    folder = Golden.load("llama").write(own / "mine")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    problem = str(listed("mine").problem)
    assert "pytorch_model.bin is a pickle" in problem
    assert "weights_only=True" in problem


def test_a_tensor_that_is_missing_is_named(own: Path) -> None:
    from safetensors.torch import save_file

    golden = Golden.load("llama")
    folder = golden.write(own / "mine")
    tensors = golden.tensors()
    del tensors["model.norm.weight"]
    save_file(tensors, folder / "model.safetensors")
    assert "norm.weight" in str(listed("mine").problem)


def test_what_headers_and_the_vocabulary_show_is_listed(own: Path) -> None:
    from safetensors.torch import load_file, save_file

    def problem(**changes: torch.Tensor) -> str:
        save_file(whole | changes, path)
        return str(listed("mine").problem)

    path = Golden.load("llama").write(own / "mine", "own") / "model.safetensors"
    whole, name = load_file(path), "model.norm.weight"
    assert "norm.weight has shape (5,), which does not match the config" in problem(
        **{name: torch.zeros(5)}
    )
    integers = torch.zeros(24, dtype=torch.int8)
    assert "model.norm.weight contains I8, not floats" in problem(**{name: integers})
    assert problem() == "None"
    path.write_bytes(path.read_bytes()[:-10])
    assert "is incomplete" in str(listed("mine").problem)
    other = Golden.load("gpt2").write(own / "other", "own")
    (own / "mine" / "tokenizer.json").replace(other / "tokenizer.json")
    assert "tokenizer.json: its largest token id is 292" in str(listed("other").problem)
    (other / "tokenizer.json").write_text('{"model": {}}')
    assert "the tokenizer cannot be used: tokenizer.json" in str(listed("other").problem)
    (other / "config.json").write_text("[" * 100_000)
    assert "nested too deeply" in str(listed("other").problem)
    (other / "config.json").unlink()
    assert str(listed("other").problem) == "config.json is missing"


def test_code_of_a_model_is_refused(own: Path) -> None:
    folder = Golden.load("llama").write(own / "mine")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "x"}}))
    assert "auto_map" in str(listed("mine").problem)


def test_what_changes_on_disk_is_read_again(own: Path) -> None:
    folder = Golden.load("llama").write(own / "mine")
    assert listed("mine").problem is None
    (folder / "model.safetensors").write_bytes(b"short")
    os.utime(folder / "model.safetensors", (1, 1))
    assert "model.safetensors is not a readable" in str(listed("mine").problem)


def test_no_tensor_is_read(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from models.foreign.weights import Safetensors

    def read(*_: object) -> torch.Tensor:
        raise AssertionError("a tensor was read")

    monkeypatch.setattr(Safetensors, "read", read)
    Golden.load("qwen3").write(own / "unread")
    assert listed("unread").parameters > 0


def test_a_gguf_file_that_is_none_is_told_so(own: Path) -> None:
    (own / "mine.gguf").write_bytes(b"not one")
    assert str(listed("mine").problem) == "mine.gguf is not a readable GGUF file"


def test_a_folder_without_a_tokenizer_is_told_the_command_that_makes_one(own: Path) -> None:
    (Golden.load("llama").write(own / "mine") / "tokenizer.json").unlink(missing_ok=True)
    problem = listed("mine").problem
    assert problem is not None
    assert "tokenizer.json is missing" in str(problem)
    assert "save_pretrained" in str(problem.values["command"])


def test_a_config_that_is_a_link_to_itself_is_listed_with_the_reason(own: Path) -> None:
    config = Golden.load("llama").write(own / "mine") / "config.json"
    config.unlink()
    config.symlink_to(config)
    assert "config.json is a link to a missing file" in str(listed("mine").problem)
