"""What cannot be opened is refused before memory is taken, with the file's name and the reason."""

import errno
import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from foreign import Golden, change_config, change_weights, refused
from safetensors.torch import load_file, save_file

from models import refusals
from models.decoding import best, decode
from models.foreign import Placing, few, json_files, look, open_folder, weights
from models.foreign.families import FAMILIES
from models.foreign.system import of_system
from models.hooks import LOGITS, Edits, visiting
from models.strategies import Greedy
from models.training.commands import main
from models.training.home import asset


@pytest.fixture
def folder(tmp_path) -> Path:
    return Golden.load("gpt2").write(tmp_path / "tiny", "own")


def into_shards(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    listed = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file)
        listed |= dict.fromkeys(part, file)
    text = json.dumps({"metadata": {}, "weight_map": listed})
    (folder / "model.safetensors.index.json").write_text(text)


def test_shards_of_halves_open_as_one_model_of_floats(folder):
    change_weights(folder, lambda ts: ts.update({k: t.bfloat16() for k, t in ts.items()}))
    whole = open_folder(folder).model.state_dict()
    into_shards(folder)
    model = open_folder(folder).model
    assert not model.training
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, whole[name])
        assert parameter.dtype == torch.float32
        assert not parameter.requires_grad
        # A third of a fused matrix would otherwise hold all of it.
        assert parameter.untyped_storage().nbytes() == parameter.nbytes


FILES = ("model.safetensors", "tokenizer.json", "config.json")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        *((name, None, ("is missing",)) for name in FILES[:2]),
        *((name, b"{", ()) for name in FILES),
        *((name, POINTER, ("is a Git LFS pointer", "git lfs pull")) for name in FILES),
        ("pytorch_model.bin", pickle.dumps({}), ("is a pickle", "never loaded", "save_file")),
    ],
)
def test_a_file_that_cannot_be_read_is_named(folder, name, content, said):
    (folder / (name if name in FILES else FILES[0])).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    refused(folder, name, *said)


def test_a_truncated_shard_and_one_that_is_not_there(folder):
    into_shards(folder)
    shard = folder / "model-00002-of-00002.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-10])
    sizes = f"it has {len(whole) - 10:,} of {len(whole):,} bytes"
    refused(folder, f"{shard.name} is incomplete", sizes, "download it again")
    shard.write_bytes(whole[:50])
    refused(folder, f"{shard.name} is incomplete: it has 50 of")
    for damaged in (b"", b"{" * 50, (2).to_bytes(8, "little") + b"[]", whole + b"more"):
        shard.write_bytes(damaged)
        refused(folder, f"{shard.name} is not a readable safetensors file", "Download it again")
    shard.unlink()
    refused(folder, f"{shard.name} is missing, although model.safetensors.index.json lists")


def test_an_index_cannot_lead_out_of_its_folder(folder):
    into_shards(folder)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"wte.weight": "../other.safetensors"}}))
    refused(folder, index.name, "not the name of a file in the same folder")
    index.write_text(json.dumps({"weight_map": {"x": "model-00001-of-00002.safetensors"}}))
    refused(folder, "does not contain x, although model.safetensors.index.json lists it there")
    for said in ("[]", "{}", '{"weight_map": {"wte.weight": 3}}'):
        index.write_text(said)
        refused(folder, f"{index.name} is not an index of shards: its weight_map must name a file")


def test_a_tensor_that_is_missing_superfluous_misshapen_or_not_finite(folder):
    whole = load_file(folder / "model.safetensors")
    name = "transformer.h.1.ln_2.bias"

    def with_tensors(**changes: torch.Tensor) -> None:
        save_file(whole | changes, folder / "model.safetensors")

    with_tensors(**{"transformer.h.0.attn.c_attn.lora_A": torch.zeros(2, 2)})
    refused(folder, "transformer.h.0.attn.c_attn.lora_A", "1 unknown")
    with_tensors(**{name: torch.zeros(5)})
    refused(folder, f"{name} has shape (5,)", "blocks.1.ffn_norm.bias should be (24,)")
    with_tensors(**{name: torch.full((24,), torch.nan)})
    refused(folder, f"model.safetensors: {name} contains NaN or infinity")
    with_tensors(**{name: torch.zeros(24, dtype=torch.int8)})
    refused(folder, f"{name} contains I8; only")
    change_weights(folder, lambda tensors: tensors.pop(name))
    refused(folder, "model.safetensors does not contain transformer.h.1.ln_2.bias")


def test_one_parameter_stored_twice(folder):
    """Under two names, which one model's file may have if the numbers agree; and in two shards."""
    tensors = load_file(folder / "model.safetensors")
    name, plain = "transformer.ln_f.bias", "ln_f.bias"
    save_file(tensors | {plain: tensors[name].clone()}, folder / "model.safetensors")
    assert torch.equal(open_folder(folder).model.get_parameter("final_norm.bias"), tensors[name])
    save_file(tensors | {plain: tensors[name] + 1}, folder / "model.safetensors")
    refused(folder, "model.safetensors stores one parameter twice", name, plain)
    save_file(tensors, folder / "model.safetensors")
    into_shards(folder)
    shards = sorted(folder.glob("*.safetensors"))
    save_file(tensors, shards[1])
    refused(folder, f"{shards[1].name} stores one parameter twice", shards[0].name)


@pytest.mark.parametrize(
    ("family", "lacking"),
    [
        ("llama", "model.norm.weight"),  # nothing beside it
        ("bert", "bert.embeddings.word_embeddings.weight"),
        ("roberta", "lm_head.layer_norm.bias"),
        ("marian", "final_logits_bias"),
        ("t5", "encoder.final_layer_norm.weight"),
        ("gpt_neox", "embed_out.weight"),
    ],
)
def test_a_missing_tensor_is_named_as_the_file_names_its_others(tmp_path, family, lacking):
    folder = Golden.load(family).write(tmp_path / "tiny", "own")
    change_weights(folder, lambda tensors: tensors.pop(lacking))
    refused(folder, f"model.safetensors does not contain {lacking}")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "mamba"}, ("model_type is 'mamba'", "gpt2", "llama", "hl.capture()")),
        ({"model_type": "deberta-v2"}, ("'deberta-v2'", "disentangled attention")),
        ({"model_type": "beit"}, ("'beit'", "distance in rows and columns")),
        ({"model_type": "vision-encoder-decoder"}, ("TrOCR", "same design")),
        ({"model_type": ["gpt2"]}, ("model_type",)),
        ({"model_type": "a" * 1000}, ("aaa…aaa", "gpt2, openai-gpt")),  # shortened
        ({"auto_map": {"AutoModel": "modeling.Model"}}, ("auto_map", "never run", "hl.capture()")),
        ({"quantization_config": {"bits": 4}}, ("quantization_config", "hl.capture()")),
        ({"n_head": 5}, ("d_model is 24", "n_heads = 5")),
        ({"n_layer": True}, ("n_layer is True",)),
        ({"n_embd": "absent"}, ("n_embd is missing",)),
        ({"layer_norm_epsilon": -1}, ("layer_norm_epsilon is -1",)),
        ({"tie_word_embeddings": 1}, ("tie_word_embeddings is 1",)),
        ({"activation_function": "mish"}, ("activation_function is 'mish'", "gelu_new")),
        ({"scale_attn_by_inverse_layer_idx": True}, ("scale_attn_by_inverse_layer_idx is True",)),
        ({"n_layer": 10**6}, ("n_layer is 1000000, but only 28 tensors are stored",)),
        ({"n_embd": 10**12}, ("n_embd is 1000000000000",)),
        ({"n_inner": 2**24}, ("h.0.mlp.c_fc.weight", "does not match the config")),
        ({"vocab_size": 2**24}, ("wte.weight has shape (260, 24)", "should be (16777216")),
        ({"model_type": "absent"}, ("config.json: model_type is missing", "hl.capture()")),
        ({"n_layer": 1}, ("transformer.h.1.",)),
        ({"layer_norm_epsilon": float("inf")}, ("layer_norm_epsilon is inf",)),
    ],
)
def test_a_config_that_cannot_be_honoured(folder, changes, said):
    change_config(folder, **changes)
    refused(folder, *said)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("t5", {"num_decoder_layers": 2**24}, "but only 47 tensors are stored"),
        ("marian", {"max_position_embeddings": 2**24}, "its table of positions needs more"),
        ("marian", {"decoder_start_token_id": 10**30}, "decoder_start_token_id is 1000000000"),
        ("t5", {"decoder_start_token_id": 10**6}, "decoder_start_token_id is 1000000: it must be"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ("llama", {"is_causal": False}, "is_causal is False: only True"),
        ("marian", {"is_causal": None}, "is_causal is None"),
        ("vit", {"head_dim": 2}, "head_dim is 2: only None, 6"),
    ],
)
def test_a_setting_of_another_family_that_cannot_be_honoured(tmp_path, name, changes, said):
    """Sizes that no tensor vouches for are bounded."""
    folder = Golden.load(name).write(tmp_path / "tiny", "own")
    test_a_config_that_cannot_be_honoured(folder, changes, (said,))


def test_windows_are_those_of_the_config(tmp_path):
    def windows(folder: Path) -> list[int | None]:
        return [site.window for site in open_folder(folder).model.attention_sites()]

    folder = Golden.load("mistral").write(tmp_path / "tiny")
    assert windows(folder) == [5, 5]
    assert open_folder(folder).config.n_ctx == 64
    change_config(folder, sliding_window=None)
    assert windows(folder) == [None, None]
    for name, found in (("gemma3_text", [6, None]), ("gemma2", [6, None]), ("qwen2", [None] * 2)):
        assert windows(Golden.load(name).write(tmp_path / name)) == found
    folder = Golden.load("qwen2-window").write(tmp_path / "tiny")
    assert windows(folder) == [None, 4]
    change_config(folder, layer_types="absent")
    assert windows(folder) == [None, 4], "from max_window_layers on"
    change_config(folder, layer_types=["sliding_attention", "chunked_attention"])
    refused(folder, "layer_types is", '"full_attention" for each layer')


@pytest.mark.parametrize(
    ("family", "key", "ours"),
    [
        ("gpt_neox", "use_parallel_residual", "parallel"),
        ("openai-gpt", "tie_word_embeddings", "tie_embeddings"),
    ],
)
def test_a_key_left_out_of_a_config_is_on_as_in_its_library(tmp_path, family, key, ours):
    folder = Golden.load(family).write(tmp_path / "tiny")
    change_config(folder, **{key: "absent"})
    assert getattr(open_folder(folder).model.config, ours)


@pytest.mark.parametrize(
    ("name", "setting", "there"),
    [
        ("bert", {"do_lower_case": False}, True),
        ("bert", {"strip_accents": False}, None),
        ("bert", {"tokenize_chinese_chars": False}, True),
        ("bert", {"cls_token": "<new>"}, "[CLS]"),
        ("bert", {"sep_token": {"content": "<new>"}}, "[SEP]"),
        ("gpt2", {"add_prefix_space": True}, False),
        ("t5", {"add_prefix_space": False}, True),
        ("t5", {"do_lower_case": True, "tokenizer_class": "AlbertTokenizer"}, False),
        ("t5", {"keep_accents": False, "tokenizer_class": "AlbertTokenizerFast"}, True),
        ("t5", {"eos_token": "<new>"}, "</s>"),
        ("t5", {"unk_token": None}, "<unk>"),
        ("llama", {"legacy_behaviour": True}, False),
    ],
)
def test_a_setting_that_contradicts_the_tokenizer(tmp_path, name, setting, there):
    """`transformers` builds the tokenizer anew from it, unless the class reads the file alone."""
    folder = Golden.load(name).write(tmp_path / "tiny", "own")
    path = folder / "tokenizer_config.json"
    key, value = next(iter(setting.items()))
    value = value["content"] if isinstance(value, dict) else value
    settings = json.loads(path.read_text()) | setting
    path.write_text(json.dumps(settings))
    refused(folder, f"{key} = {value!r}, but tokenizer.json was written with {there!r}")
    path.write_text(json.dumps(settings | {"tokenizer_class": "PreTrainedTokenizerFast"}))
    open_folder(folder)


def test_settings_that_agree_with_the_tokenizer(tmp_path):
    folder = Golden.load("t5").write(tmp_path / "tiny", "own")
    path = folder / "tokenizer_config.json"
    settings = {"add_prefix_space": True, "do_lower_case": True, "bos_token": "<not used>"}
    path.write_text(json.dumps(settings))
    open_folder(folder)
    path.write_text('{"add_prefix_space": null}')  # the default, except of these classes
    open_folder(folder)
    path.write_text('{"add_prefix_space": null, "tokenizer_class": "XLMRobertaTokenizerFast"}')
    refused(folder, "add_prefix_space = False")


def test_a_tokenizer_of_another_model(folder):
    theirs = Golden.load("llama").write(folder.parent / "other", "own")
    (theirs / "tokenizer.json").replace(folder / "tokenizer.json")
    refused(folder, "tokenizer.json: its largest token id is 292", "belongs to a different model")


@pytest.mark.parametrize("kind", ["own", "foreign"])
def test_a_tokenizer_that_ends_its_library_in_a_panic(tmp_path, kind):
    """Found by the fuzzer: a panic of Rust code is no Exception."""
    if kind == "own":
        folder = Path(shutil.copytree(asset("checkpoints", "copy"), tmp_path / "tiny"))
    else:
        folder = Golden.load("gpt2").write(tmp_path / "tiny", "own")
    path = folder / "tokenizer.json"
    said = json.loads(path.read_text("utf-8"))
    assert said["model"]["merges"]
    said["model"]["continuing_subword_prefix"] = "longer than any token of it" * 20
    path.write_text(json.dumps(said), "utf-8")
    refused(folder, "tokenizer.json is not a usable tokenizer", "out of range")


def test_a_tokenizer_of_few_tokens_is_no_reason_to_refuse_a_model(folder, capsys):
    """One may have been made for a model whose size nobody changed. It is said beside the name."""
    theirs = Golden.load("bert").write(folder.parent / "other", "own")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (theirs / name).replace(folder / name)
    seen = look(folder)
    assert (seen.n_tokens, seen.vocab_size) == (97, 260)
    assert few(seen.n_tokens, seen.vocab_size)
    assert not few(130, 260)
    assert main(["info", str(folder)]) == 0
    assert "97 of 260 tokens" in capsys.readouterr().err


def test_json_that_is_too_large_or_nested_without_end(folder, monkeypatch):
    for name in ("config.json", "tokenizer_config.json"):
        whole = (folder / name).read_text()
        (folder / name).write_text("[" * 100_000)
        refused(folder, f"{name} is not JSON: lists or objects are nested too deeply")
        (folder / name).write_text(whole)
    monkeypatch.setattr(json_files, "MOST_BYTES", 1000)
    refused(folder, "tokenizer.json is 0 MB; the limit for such a file is 0 MB")


def test_a_model_larger_than_the_machine_is_refused_before_a_number_is_read(folder, monkeypatch):
    monkeypatch.setattr(Placing, "memory", property(lambda _: 1000))
    monkeypatch.setattr(weights.Safetensors, "read", lambda *_: pytest.fail("a tensor was read"))
    refused(folder, "GB in float32")


def test_a_circle_of_links_and_a_folder_without_rights(folder, monkeypatch):
    for name in ("tokenizer.json", "config.json"):
        (folder / name).unlink()
        (folder / name).symlink_to(folder / name)
        refused(folder, f"{name} is a link to a missing file or to itself")
    whole = Golden.load("gpt2").write(folder.parent / "whole", "own")
    for method, name in (("open", "model.safetensors"), ("is_file", "config.json")):
        real = getattr(Path, method)

        def denied(path: Path, *rest: Any, real: Any = real, name: str = name, **more: Any) -> Any:
            if path.name == name:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *rest, **more)

        monkeypatch.setattr(Path, method, denied)
        refused(whole, f"whole: {name} cannot be read: Permission denied")


def test_reasons_of_the_system_are_said_in_both_languages():
    for number in (errno.EACCES, errno.EISDIR, errno.EIO, errno.ELOOP, errno.ENOENT, errno.ENOSPC):
        reason = of_system(OSError(number, os.strerror(number)))
        assert isinstance(reason, refusals.Refusal)
        assert str(reason) == os.strerror(number)
        assert refusals.words("zh")[reason.key].isascii() is False
    assert of_system(OSError(errno.EXDEV, "too far")) == "too far"


def test_every_family_has_a_golden_file():
    from foreign import NAMES

    kinds = {Golden.load(name).config["model_type"] for name in NAMES}
    parts = {"gemma3", "clip", "siglip"}  # the text model of one, the vision towers of the others
    assert kinds == set(FAMILIES) - parts


def test_each_of_several_end_tokens_ends_an_output(tmp_path):
    """Those of the config, and those that are only in the settings of generation beside it."""
    folder = Golden.load("llama").write(tmp_path / "tiny", "own")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0]}))
    checkpoint = open_folder(folder)
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    assert (tokenizer.marks.end, tokenizer.marks.further_ends) == (2, (0,))
    given = torch.tensor([model.with_marks("tgt", tokenizer.encode("I like"))])
    for token, ends in ((2, True), (0, True), (7, False)):

        def only(logits: torch.Tensor, token: int = token) -> torch.Tensor:
            return torch.zeros_like(logits).index_fill(-1, torch.tensor([token]), 9.0)

        with visiting(Edits({LOGITS: only})):
            (output,) = best(decode(model, given, Greedy(), 3))
        assert output.tokens == (token,) * (1 if ends else 3)
        assert output.finished == ends
