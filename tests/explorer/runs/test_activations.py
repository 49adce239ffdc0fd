"""What a run does not keep is read again: the same numbers, from one block alone."""

import pickle

import numpy as np
import pytest
import torch
from foreign import Golden
from torch.nn.modules.module import register_module_forward_pre_hook

from explorer.library import open_model
from explorer.runs import activations
from explorer.runs.edits import CellEdit, HeadOff, MaskSwitch
from explorer.runs.passes import Exclusive, letting, timed
from explorer.runs.rerun import read_again
from explorer.runs.trace import Trace, trace
from models.config import ModelConfig
from models.foreign import Placing
from models.hooks import LOGITS
from models.rows import Rows
from models.transformer import build_model

TEXT = "The cat sat on the mat."
SELF, CROSS = "decoder.blocks.0.attn", "decoder.blocks.1.cross_attn"
EDITS = (MaskSwitch("causal", False), HeadOff(SELF, 1), CellEdit(CROSS, None, 1, 0, False))


def keeping(patch: pytest.MonkeyPatch, whole: int, patterns: int = 0) -> None:
    patch.setattr(activations, "WHOLE_BYTES", whole)
    patch.setattr(activations, "PATTERN_BYTES", patterns)


def own(traced: Trace) -> activations.Activations:
    assert isinstance(traced.activations, activations.Activations)
    return traced.activations


def compare(part: Trace, whole: Trace, share: float) -> None:
    """Each activation is the same up to this share of its largest number."""
    for name, array in whole.activations.items():
        again = part.activations[name]
        assert again.dtype == array.dtype
        largest = float(np.abs(array).max(initial=0))
        np.testing.assert_allclose(again, array, rtol=0, atol=share * largest, err_msg=name)


@pytest.mark.parametrize("edits", [(), EDITS])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"family": "decoder-only", "positions": "alibi"},
        {"family": "encoder-only", "lm_head": False},
    ],
)
def test_what_is_read_again_is_what_the_run_computed(changes, edits, tiny, monkeypatch):
    loaded = tiny(**changes)
    target = "猫" if "src" in loaded.model.reads else None
    keeping(monkeypatch, 10**9)
    whole = trace(loaded, TEXT, target, edits, pads=1)
    assert set(own(whole).kept) == set(whole.activations)
    for patterns in (10**9, 0):
        keeping(monkeypatch, 0, patterns)
        part = trace(loaded, TEXT, target, edits, pads=1)
        assert tuple(part.activations) == tuple(whole.activations)
        assert part.predicted_tokens == whole.predicted_tokens
        cells = {site.hook(what) for site in loaded.sites for what in ("mask", "pattern")}
        assert (cells <= set(own(part).kept)) == (patterns > 0)
        # Where nobody saw the cells, the run itself took the fused kernel: rounded otherwise.
        compare(part, whole, 0.0 if patterns else 1e-5)
        assert not any(array.flags.writeable for array in part.activations.values())


def test_in_half_precision_too(tmp_path, monkeypatch):
    folder = Golden.load("marian").write(tmp_path / "tiny", "own")
    loaded = open_model(folder, placing=Placing(dtype="float16"))
    keeping(monkeypatch, 10**9)
    whole = trace(loaded, "I like you.", "我")
    keeping(monkeypatch, 0)
    compare(trace(loaded, "I like you.", "我"), whole, 1e-2)


def test_one_block_alone_runs_again(translator, monkeypatch):
    keeping(monkeypatch, 0)
    traced = trace(translator, TEXT, "猫")
    ran: list[torch.nn.Module] = []
    with register_module_forward_pre_hook(lambda module, _: ran.append(module)):
        assert "decoder.blocks.1.hook_ffn_out" in traced.activations  # known without a run
        assert "decoder.blocks.1.ffn.hook_pre" not in traced.activations
        assert traced.activations["decoder.blocks.1.hook_resid_pre"] is not None  # kept
        assert not ran
        traced.activations["decoder.blocks.1.cross_attn.hook_q"]
        first = len(ran)
        traced.activations["decoder.blocks.1.hook_ffn_out"]  # of the part that was just read
        assert len(ran) == first
        blocks = translator.model.decoder.blocks
        assert blocks[1].attn in ran
        assert blocks[0].attn not in ran
        ran.clear()
        assert traced.logits.shape == (len(traced.tgt_tokens), translator.config.vocab_size)
        assert translator.model.unembed in ran
        assert blocks[1].attn not in ran
        ran.clear()
        assert not traced.patterns_kept
        traced.pattern(SELF)  # read without the rest of its block
        assert blocks[0].attn in ran
        assert blocks[0].ffn not in ran
    with pytest.raises(KeyError, match="nowhere"):
        traced.activations["nowhere"]
    keeping(monkeypatch, 10**9)
    assert trace(translator, TEXT, "猫").patterns_kept


def test_a_long_run_keeps_streams_and_not_cells(tiny, monkeypatch):
    writer = tiny("long", family="decoder-only", n_ctx=96)
    keeping(monkeypatch, 0)
    traced = trace(writer, "，" * 90)
    n, d = len(traced.tgt_tokens), writer.config.d_model
    streams = 4 * n * d * (writer.config.n_layers + 4)
    assert sum({id(a): a.nbytes for a in own(traced).kept.values()}.values()) <= streams + 8 * n
    assert traced.pattern(traced.sites[0].name).shape == (writer.config.n_heads, n, n)
    mask = traced.mask(traced.sites[0].name)
    assert mask.strides[0] == 0  # one for all heads


def test_others_can_stand_in_place_of_some(writer, monkeypatch):
    keeping(monkeypatch, 0)
    traced = trace(writer, TEXT)
    name = writer.sites[0].hook("pattern")
    flat = np.zeros_like(traced.activations[name])
    changed = own(traced) | {name: flat, "further": flat}
    assert changed[name] is flat
    assert changed["further"] is flat
    assert set(changed) == {*traced.activations, "further"}
    assert traced.activations[name].any()
    again = pickle.loads(pickle.dumps(traced.activations))
    assert set(again) == set(traced.activations)
    np.testing.assert_array_equal(again[LOGITS], traced.logits)
    part = own(traced).parts[name]
    assert part is not None
    np.testing.assert_array_equal(read_again(writer, traced, part)[name], traced.activations[name])


def test_every_pass_of_every_stack_is_announced_except_where_nobody_may_disturb():
    config = ModelConfig(vocab_size=7, d_model=8, n_heads=2)  # a translator: two stacks
    model, rows = build_model(config), Rows(torch.tensor([[1, 2, 3]]), src=torch.tensor([[1, 2]]))
    begun: list[str] = []
    model.read(rows)
    with letting(lambda: begun.append("pass")):
        model.read(rows)
        assert len(begun) == 2
        with Exclusive().held():
            model.read(rows)
        assert len(begun) == 2
        timed(lambda: model.read(rows))
        assert len(begun) == 3  # once, before it
        model.read(rows)
    model.read(rows)
    assert len(begun) == 5
