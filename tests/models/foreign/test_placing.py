"""Models that compute in half precision or on a GPU, and are read from the CPU in float32."""

import pytest
import torch
from foreign import Golden, change_weights

from explorer.runs.run import run
from models import CheckpointError
from models.decoding import best, decode
from models.foreign import Placing, look, open_folder
from models.foreign.placing import DEVICE_VARIABLE, DTYPE_VARIABLE
from models.hooks import Edits, visiting
from models.rows import Rows
from models.strategies import Beam
from models.transformer import Model

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU here")


def rows_of(golden: Golden, model: Model, padded: bool = False) -> Rows:
    """A text; `padded`: its beginning too, beside so much padding."""
    tgt, src = (golden.arrays[f"first.{each}"].tolist() for each in ("tgt", "src"))
    tgts, srcs = [[each, each[:3]] if padded else [each] for each in (tgt, src)]
    return Rows.of(tgts, srcs if "src" in model.reads else None)


def all_of(model: Model, rows: Rows) -> dict[str, torch.Tensor]:
    return run(model, rows, lambda name: True)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "float16") for name in ("marian", "gemma2", "gpt2", "gpt_neox", "t5")),
        *((name, "bfloat16") for name in ("bert", "llama", "qwen3", "gpt2", "t5")),
    ],
)
def test_half_precision_is_read_as_float32_and_stays_near(tmp_path, name, dtype):
    golden = Golden.load(name)
    folder = golden.write(tmp_path / "tiny")
    usual = open_folder(folder).model
    half = open_folder(folder, placing=Placing(dtype=dtype)).model
    assert {str(each.dtype) for each in half.parameters()} == {f"torch.{dtype}"}
    rows = rows_of(golden, usual, padded=True)
    expected, found = all_of(usual, rows), all_of(half, rows)
    assert expected.keys() == found.keys()
    most = 0.05 if dtype == "float16" else 0.4 if name == "t5" else 0.2  # T5 scales no scores
    for hook, tensor in expected.items():
        assert found[hook].dtype == tensor.dtype, hook
        if tensor.is_floating_point():
            apart = (found[hook] - tensor).abs().max() / tensor.abs().max()
            assert apart < most, hook  # so nothing is NaN or infinite either, where masks act
    assert not torch.equal(found["hook_logits"], expected["hook_logits"])
    assert half.read(rows).dtype == torch.float32


def test_what_a_visitor_changes_is_what_the_model_goes_on_with(tmp_path):
    folder = Golden.load("gpt2").write(tmp_path / "tiny")
    half = open_folder(folder, placing=Placing(dtype="bfloat16")).model
    rows = rows_of(Golden.load("gpt2"), half)
    whole = half.read(rows)
    name = "blocks.1.attn.hook_z"
    with torch.no_grad(), visiting(Edits({name: torch.zeros_like})):
        changed = half.read(rows)
    assert not torch.allclose(whole, changed, atol=1e-2)
    with torch.enable_grad():  # and gradients pass through what a visitor saw
        nudge = torch.zeros(1, requires_grad=True)
        with visiting(Edits({name: lambda z: z + nudge})):
            (slope,) = torch.autograd.grad(half.read(rows).sum(), [nudge])
    assert slope.abs() > 0


def test_only_where_memory_forbids_float32_a_file_of_halves_stays_one(tmp_path, monkeypatch):
    folder = Golden.load("llama").write(tmp_path / "tiny")
    n = look(folder).parameters

    def dtype_with(memory: int, asked: str | None = None) -> torch.dtype:
        monkeypatch.setattr(Placing, "memory", property(lambda _: memory))
        return open_folder(folder, placing=Placing(dtype=asked)).model.unembed.weight.dtype

    assert dtype_with(4 * n) == torch.float32
    with pytest.raises(CheckpointError, match=r"GB in float32.*--dtype bfloat16 it needs"):
        dtype_with(4 * n - 1)
    assert dtype_with(2 * n, "float16") == torch.float16
    change_weights(folder, lambda ts: ts.update({k: t.bfloat16() for k, t in ts.items()}))
    assert look(folder).half == torch.bfloat16
    assert dtype_with(4 * n) == torch.float32, "where there is room, halves are widened"
    assert dtype_with(4 * n - 1) == torch.bfloat16
    with pytest.raises(CheckpointError, match=r"GB in bfloat16; this machine has"):
        dtype_with(2 * n - 1)


def test_what_is_asked(monkeypatch):
    assert Placing.asked() == Placing("cpu", None)
    monkeypatch.setenv(DTYPE_VARIABLE, "float16")
    assert Placing.asked() == Placing("cpu", "float16")
    assert Placing.asked(dtype="bfloat16").dtype == "bfloat16", "an option comes first"
    monkeypatch.setenv(DTYPE_VARIABLE, "int8")
    with pytest.raises(ValueError, match="dtype is 'int8': it must be one of float32, float16"):
        Placing.asked()
    monkeypatch.delenv(DTYPE_VARIABLE)
    monkeypatch.setenv(DEVICE_VARIABLE, "tpu")
    with pytest.raises(ValueError, match="device is 'tpu': it must be 'cpu' or 'cuda'"):
        Placing.asked()


def test_a_gpu_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="finds no CUDA GPU"):
        Placing("cuda")


@gpu
@pytest.mark.parametrize("name", ["marian", "gemma2", "bert", "t5", "gpt_neox"])
def test_on_a_gpu_the_numbers_are_those_of_the_cpu(tmp_path, name):
    golden = Golden.load(name)
    folder = golden.write(tmp_path / "tiny")
    usual = open_folder(folder).model
    there = open_folder(folder, placing=Placing("cuda")).model
    assert {each.device.type for each in there.parameters()} == {"cuda"}
    rows = rows_of(golden, usual)
    found = all_of(there, rows)
    for hook, tensor in all_of(usual, rows).items():
        assert found[hook].device.type == "cpu"
        torch.testing.assert_close(found[hook], tensor, rtol=1e-3, atol=1e-3, msg=hook)
    if usual.config.generates:
        given = rows.tgt if rows.src is None else rows.src
        outputs = [
            [h.tokens for h in best(decode(each, given, Beam(width=3), 8))]
            for each in (usual, there)
        ]
        assert outputs[0] == outputs[1]
