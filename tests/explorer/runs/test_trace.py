import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from foreign import Golden
from torch.nn.modules.module import register_module_forward_pre_hook

from explorer.library import at_step, open_model, snapshots
from explorer.problems import InputProblem
from explorer.runs import activations, inputs
from explorer.runs.edits import CellEdit, Edit, HeadOff, MaskSwitch
from explorer.runs.inputs import bytes_of, limit
from explorer.runs.passes import Exclusive, letting, timed
from explorer.runs.rerun import read_again
from explorer.runs.trace import MAX_PADS, MAX_TOKENS, Trace, trace
from models.config import ModelConfig
from models.foreign import Placing
from models.hooks import LOGITS, Edits, visiting
from models.rows import Rows
from models.training.saving import save_checkpoint, save_tensors, snapshot_name
from models.transformer import build_model

TEXT, TARGET = "The cat ran.", "猫跑开了。"
SELF, CROSS = "decoder.blocks.1.attn", "decoder.blocks.0.cross_attn"
ENCODER = "encoder.blocks.2.attn"


def refused(key: str, *args: object, by: Any = trace, **kwargs: object) -> InputProblem:
    with pytest.raises(InputProblem) as caught:
        by(*args, **kwargs)
    assert caught.value.key == key
    return caught.value


def test_a_trace_is_frozen_travels_and_leaves_nothing_behind_in_the_model(translator):
    traced = trace(translator, TEXT, TARGET, (MaskSwitch("causal", False),))
    with pytest.raises(ValueError, match="read-only"):
        traced.pattern(SELF)[0, 0, 0] = 1
    again = pickle.loads(pickle.dumps(traced))
    assert again.edits == traced.edits
    assert all((again.activations[n] == a).all() for n, a in traced.activations.items())
    with pytest.raises(KeyError, match="nowhere"):
        traced.pattern("nowhere")
    before = trace(translator, TEXT)
    weights = {name: p.clone() for name, p in translator.model.named_parameters()}
    for edit in (MaskSwitch("causal", False), HeadOff(SELF, 0), CellEdit(CROSS, None, 0, 0, False)):
        trace(translator, TEXT, edits=[edit], pads=2)
    after = trace(translator, TEXT)
    assert before.tgt_tokens == after.tgt_tokens
    np.testing.assert_array_equal(before.logits, after.logits)
    assert all(torch.equal(p, weights[name]) for name, p in translator.model.named_parameters())
    assert not any(m._forward_hooks for m in translator.model.modules())


def test_the_translation_is_made_under_the_edits_step_by_step(translator):
    usual = trace(translator, TEXT)
    traced = trace(translator, TEXT, edits=[HeadOff(CROSS, head) for head in range(4)])
    assert traced.output != usual.output
    n = len(traced.tgt_tokens) - 1
    assert traced.predicted_tokens[:n] == traced.tgt_tokens[1:]
    traced = trace(translator, TEXT, edits=[MaskSwitch("causal", False)])
    assert traced.tgt_tokens != trace(translator, TEXT).tgt_tokens
    sites = [site for site in translator.sites if site.stack == "decoder" and site.kind == "self"]
    wide = Edits({site.hook("mask"): torch.ones_like for site in sites})
    row = [translator.marks.start]
    for token in traced.tgt_tokens[1:]:
        with torch.inference_mode(), visiting(wide):
            logits = translator.model.read(Rows.of([row], [traced.src_tokens]))
        assert int(logits[0, -1].argmax()) == token
        row.append(token)


def test_switches_of_masks_open_and_close_what_they_name(translator):
    off = trace(translator, TEXT, TARGET, (MaskSwitch("causal", False),), pads=1)
    assert (off.pattern(SELF)[:, 0, 1:-1] > 0).all()
    assert not off.mask(SELF)[:, :, -1].any()  # padding stays hidden
    # The future now reaches the past: another last token changes the first row's logits.
    other = trace(translator, TEXT, TARGET + "狗", (MaskSwitch("causal", False),), pads=1)
    assert np.abs(other.logits[0] - off.logits[0]).max() > 1e-3
    on = trace(translator, TEXT, TARGET, (MaskSwitch("pad_queries", True),), pads=2)
    for site in on.sites:
        assert not on.pattern(site.name)[:, -2:].any()
        assert on.mask(site.name)[:, :-2].any(-1).all()
    assert np.isfinite(on.logits).all()
    both = (MaskSwitch("causal", False), MaskSwitch("causal", True))
    np.testing.assert_array_equal(
        trace(translator, TEXT, TARGET, both).mask(SELF), trace(translator, TEXT, TARGET).mask(SELF)
    )


def test_cells_open_and_close_and_edits_that_do_not_fit_are_handed_back(translator, writer):
    edits = (CellEdit(SELF, 1, 0, 2, True), CellEdit(CROSS, None, 1, 0, False))
    usual, edited = trace(translator, TEXT, TARGET), trace(translator, TEXT, TARGET, edits)
    assert usual.pattern(SELF)[1, 0, 2] == 0 < edited.pattern(SELF)[1, 0, 2]
    assert not edited.pattern(CROSS)[:, 1, 0].any()
    np.testing.assert_allclose(edited.pattern(CROSS).sum(-1), 1, atol=1e-5)
    fitting: list[Edit] = [HeadOff(CROSS, 3), CellEdit(ENCODER, None, 0, 0, False)]
    unfit: list[Edit] = [
        HeadOff("encoder.blocks.9.attn", 0),
        HeadOff(CROSS, 4),
        CellEdit(CROSS, 4, 0, 0, False),
        CellEdit(CROSS, None, 99, 0, False),
        CellEdit(CROSS, None, 0, 99, False),
        CellEdit(SELF, None, -1, 0, False),
    ]
    traced = trace(translator, TEXT, edits=[*unfit, *fitting])
    assert list(traced.edits) == fitting
    assert list(traced.ignored_edits) == unfit
    cross = MaskSwitch("cross_pad", False)
    assert trace(writer, TEXT, edits=[cross]).ignored_edits == (cross,)


def test_threads_with_different_edits_do_not_meet(translator):
    jobs: list[tuple[Edit, ...]] = [
        (),
        (MaskSwitch("causal", False),),
        (HeadOff(SELF, 1), HeadOff(CROSS, 0)),
        (CellEdit(CROSS, None, 0, 1, False),),
    ]
    alone = [trace(translator, TEXT, edits=edits, pads=1) for edits in jobs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda e: trace(translator, TEXT, edits=e, pads=1), jobs * 2))
    for job, traced in enumerate(together):
        assert traced.output == alone[job % 4].output
        for name, tensor in alone[job % 4].activations.items():
            np.testing.assert_array_equal(traced.activations[name], tensor, err_msg=name)


def test_refusals_say_the_limit(translator, tiny):
    own = "，" * translator.config.n_ctx
    roomy, short = tiny("roomy", n_ctx=2 * MAX_TOKENS), tiny("short", n_ctx=5, positions="learned")
    longest = "，" * (MAX_TOKENS - 1)
    beyond = {"limit": MAX_TOKENS, "length": MAX_TOKENS + 1}
    for key, values, *given in (
        ("empty", {}, translator, ""),
        ("nothing_left", {}, translator, "\x00"),
        ("too_many_tokens", {"limit": len(own)}, translator, own),
        ("too_many_tokens", beyond, roomy, longest + "，"),
        ("target_too_long", {"limit": MAX_TOKENS}, roomy, "a", longest + "，"),
        ("too_many_tokens", {"limit": 5, "length": 7}, short, "，，，，，，"),
    ):
        assert refused(key, *given).values.items() >= values.items()
    assert len(trace(roomy, longest, "猫").src_tokens) == MAX_TOKENS
    assert len(trace(roomy, "a", longest).tgt_tokens) == MAX_TOKENS
    assert len(trace(short, "，，，，", pads=3).src_tokens) == 8  # padding takes no position
    for pads in (-1, MAX_PADS + 1):
        problem = refused("bad_number", translator, TEXT, pads=pads)
        assert problem.values == {"name": "pads", "value": pads, "low": 0, "high": MAX_PADS}


def test_the_memory_that_a_text_would_take_is_a_limit(tiny, monkeypatch):
    wide = tiny("wide", family="decoder-only", n_ctx=2 * MAX_TOKENS)
    config, megabyte = wide.config, 1_000_000
    # 24 numbers of d_model before each of 2 blocks and 2 more, 120 logits; 3 x 4 heads of n x n.
    assert bytes_of(config, 50) == 4 * (50 * 24 * 4 + 50 * config.vocab_size + 3 * 4 * 50 * 50)
    assert limit(wide) == MAX_TOKENS
    monkeypatch.setattr(inputs, "MAX_BYTES", megabyte)
    most = limit(wide)
    assert bytes_of(config, most) <= megabyte < bytes_of(config, most + 1)
    assert len(trace(wide, "，" * (most - 1)).tgt_tokens) == most
    size = round(bytes_of(config, 300) / megabyte)
    problem = refused("too_many_bytes", wide, "，" * 299)
    assert problem.values == {"limit": most, "length": 300, "size": size, "bound": 1}
    refused("too_many_bytes", wide, "，", "，" * most)
    # Where the model's own length is less, that is what is said.
    short = tiny("short", family="decoder-only", n_ctx=5)
    assert refused("too_many_tokens", short, "，" * 9).values["limit"] == 5


def test_a_snapshot_of_the_training_opens_by_its_step(translator, tiny, tmp_path):
    earlier = tiny("earlier", seed=3)
    save_checkpoint(tmp_path / "film", translator.model, translator.tokenizer)
    save_checkpoint(tmp_path / "plain", translator.model, translator.tokenizer)
    (tmp_path / "film" / "moments").mkdir()
    weights = dict(earlier.model.named_parameters())
    save_tensors(tmp_path / "film" / "moments" / snapshot_name(40), weights)
    assert snapshots("film", tmp_path) == snapshots("film@40", tmp_path) == (40,)
    assert snapshots("plain", tmp_path) == snapshots("nothing", tmp_path) == ()
    then = open_model("film@40", tmp_path)
    assert then.name == "film@40"
    np.testing.assert_array_equal(trace(then, TEXT).logits, trace(earlier, TEXT).logits)
    assert at_step(then.name, None) == "film"
    assert at_step("film@40", 7) == "film@7"
    for name in ("film@41", "plain@40", "film@", "film@-1", "film@4٠"):
        with pytest.raises(InputProblem, match="unknown_model"):
            open_model(name, tmp_path)


EDITS = (MaskSwitch("causal", False), HeadOff(SELF, 1), CellEdit(CROSS, None, 1, 0, False))


def keeping(patch: pytest.MonkeyPatch, whole: int, patterns: int = 0) -> None:
    patch.setattr(activations, "WHOLE_BYTES", whole)
    patch.setattr(activations, "PATTERN_BYTES", patterns)


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
    assert set(whole.activations.kept) == set(whole.activations)
    for patterns in (10**9, 0):
        keeping(monkeypatch, 0, patterns)
        part = trace(loaded, TEXT, target, edits, pads=1)
        assert tuple(part.activations) == tuple(whole.activations)
        assert part.predicted_tokens == whole.predicted_tokens
        cells = {site.hook(what) for site in loaded.sites for what in ("mask", "pattern")}
        assert (cells <= set(part.activations.kept)) == (patterns > 0)
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
        kept = traced.activations["decoder.blocks.1.hook_resid_pre"]
        assert traced.activations["decoder.blocks.0.hook_resid_post"] is kept
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
        traced.pattern("decoder.blocks.0.attn")  # read without the rest of its block
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
    kept = {id(array): array.nbytes for array in traced.activations.kept.values()}
    assert sum(kept.values()) <= streams + 8 * n
    assert traced.pattern(traced.sites[0].name).shape == (writer.config.n_heads, n, n)
    mask = traced.mask(traced.sites[0].name)
    assert mask.strides[0] == 0  # one for all heads


def test_others_can_stand_in_place_of_some(writer, monkeypatch):
    keeping(monkeypatch, 0)
    traced = trace(writer, TEXT)
    name = writer.sites[0].hook("pattern")
    flat = np.zeros_like(traced.activations[name])
    changed = traced.activations | {name: flat, "further": flat}
    assert changed[name] is flat
    assert changed["further"] is flat
    assert set(changed) == {*traced.activations, "further"}
    assert traced.activations[name].any()
    again = pickle.loads(pickle.dumps(traced.activations))
    assert set(again) == set(traced.activations)
    np.testing.assert_array_equal(again[LOGITS], traced.logits)
    part = traced.activations.parts[name]
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
