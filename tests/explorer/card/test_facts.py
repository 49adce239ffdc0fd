"""What a model tells of itself, against what is known of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from explorer.analysis.card.facts import facts
from explorer.library import LoadedModel, open_model


def test_a_shipped_model() -> None:
    found = facts(open_model("masked-en"))
    assert found.kind == "filler"
    assert found.layers == {"encoder": 3}
    assert found.parameters == 880_384
    assert found.dtypes == ("F16",)
    assert found.bytes_stored == pytest.approx(2 * 880_384, rel=0.01)  # and the header
    assert found.marks["mask"] == "<mask>"
    assert set(found.written_in) == {"en"}
    assert found.without_piece == 0


def test_ids_that_the_tokenizer_has_no_token_for_are_counted(
    tiny: Callable[..., LoadedModel],
) -> None:
    loaded = tiny()
    size = loaded.tokenizer.vocab_size
    wider = replace(loaded, config=replace(loaded.config, vocab_size=size + 3))
    assert facts(wider).without_piece == 3


def test_a_file_with_everything_in_it(tiny: Callable[..., LoadedModel], tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF" * 25)
    found = facts(replace(tiny(), folder=tmp_path / "m.gguf"))
    assert (found.bytes_stored, found.dtypes) == (100, ("GGUF",))


@pytest.mark.parametrize(
    ("changes", "kind", "layers"),
    [
        ({}, "translator", {"encoder": 3, "decoder": 2}),
        ({"family": "decoder-only"}, "writer", {"decoder": 2}),
        ({"family": "encoder-only", "lm_head": False}, "reader", {"encoder": 2}),
    ],
)
def test_each_family(
    tiny: Callable[..., LoadedModel],
    tmp_path: Path,
    changes: dict[str, object],
    kind: str,
    layers: dict[str, int],
) -> None:
    loaded = replace(tiny(**changes), folder=tmp_path)
    found = facts(loaded)
    assert (found.kind, found.layers) == (kind, layers)
    assert (found.bytes_stored, found.dtypes) == (0, ())
    assert set(found.written_in) == {"en", "zh"}
    assert sum(found.written_in.values()) < loaded.tokenizer.vocab_size


def test_shards_are_added_up_and_a_file_that_is_none_has_no_type(
    tiny: Callable[..., LoadedModel], tmp_path: Path
) -> None:
    save_file({"a": torch.zeros(4)}, tmp_path / "model-1.safetensors")
    save_file({"b": torch.zeros(4, dtype=torch.bfloat16)}, tmp_path / "model-2.safetensors")
    (tmp_path / "notes.safetensors").write_text("no tensors")
    found = facts(replace(tiny(), folder=tmp_path))
    assert found.dtypes == ("BF16", "F32")
    assert found.bytes_stored == sum(path.stat().st_size for path in tmp_path.iterdir())
