"""Hook points: identity unless visited, named by path, private to a thread, gone after an error."""

import threading

import pytest
import torch
from torch import nn

from models.fast import FastHookPoint
from models.fast.memory import FastRecord
from models.hooks import VISITOR, Edits, HookPoint, Record, name_hook_points, visiting


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.hook_first = HookPoint()
        self.inner = nn.ModuleList([HookPoint(), HookPoint()])
        name_hook_points(self)

    def forward(self, x):
        x = self.hook_first(x) + 1
        for hook in self.inner:
            x = hook(x) * 2
        return x


def everything(name):
    return True


def test_without_a_visitor_in_its_thread_a_hook_point_hands_on_the_very_tensor():
    x, wanted = torch.randn(3), []
    for hook in (HookPoint(), FastHookPoint()):
        assert hook(x) is x
    with visiting(Record(everything)):
        thread = threading.Thread(target=lambda: wanted.append(hook.wanted))
        thread.start()
        thread.join(timeout=10)
        assert hook.wanted
    assert [*wanted, hook.wanted] == [False, False]


def test_record_keeps_copies_of_what_it_wants_of_the_last_pass():
    chain = Chain()
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    record = Record(lambda name: name != "inner.0")
    with visiting(record):
        chain(torch.zeros(2))
        chain(x)
    with torch.no_grad():
        x.zero_()
    assert set(record.activations) == {"hook_first", "inner.1"}
    assert record.activations["inner.1"].tolist() == [4.0, 6.0]  # (x + 1) * 2
    assert record.activations["hook_first"].tolist() == [1.0, 2.0]
    assert not record.activations["hook_first"].requires_grad


@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (1, 1), (2, 3)], ids=str)
def test_a_fast_record_keeps_the_same_numbers_in_the_least_room(shape):
    hook, plain, fast = HookPoint(), Record(everything), FastRecord(everything)
    given = torch.rand(shape)
    for record in (plain, fast):
        with visiting(record):
            hook(given.expand(2, 3))
    (kept,), (other,) = plain.activations.values(), fast.activations.values()
    assert torch.equal(kept, other)
    assert other.untyped_storage().nbytes() == 4 * given.numel()
    given.zero_()
    assert torch.equal(kept, other)
    assert other.all(), "a later change reached the record"


def test_an_edit_changes_what_comes_after_it_and_only_inside_the_block():
    chain = Chain()
    x = torch.tensor([1.0])
    assert chain(x).item() == 8.0
    with visiting(Edits({"inner.0": lambda tensor: tensor + 10})):
        assert chain(x).item() == 48.0  # ((1 + 1) + 10) * 4
    assert chain(x).item() == 8.0


def test_record_sees_what_the_model_went_on_with():
    record = Record("inner.0".__eq__, Edits({"hook_first": torch.zeros_like}))
    with visiting(record):
        out = Chain()(torch.tensor([5.0]))
    assert set(record.activations) == {"inner.0"}  # the edit happens, and is not recorded
    assert record.activations["inner.0"].item() == 1.0
    assert out.item() == 4.0
    record = Record("hook_first".__eq__, Edits({"hook_first": torch.zeros_like}))
    with visiting(record):
        Chain()(torch.tensor([5.0]))
    assert record.activations["hook_first"].item() == 0.0


def test_nested_blocks_ask_the_innermost_visitor_and_restore_the_outer():
    chain = Chain()
    outer, inner = Record(everything), Record(everything)
    with visiting(outer):
        with visiting(inner):
            chain(torch.zeros(1))
        assert outer.activations == {}
        chain(torch.ones(1))
    assert inner.activations["hook_first"].item() == 0.0
    assert outer.activations["hook_first"].item() == 1.0


def test_nothing_is_left_after_an_error():
    chain = Chain()
    record = Record(everything)

    def fail(tensor):
        raise RuntimeError("edit failed")

    with (
        pytest.raises(RuntimeError, match="edit failed"),
        visiting(Record(everything, Edits({"inner.0": fail}))),
    ):
        chain(torch.zeros(1))
    with pytest.raises(KeyError), visiting(record):
        raise KeyError
    chain(torch.zeros(1))
    assert VISITOR.get() is None
    assert record.activations == {}


@pytest.mark.parametrize(
    "replacement",
    [torch.zeros(1, 3), torch.zeros(3, 2), torch.zeros(2, 3, dtype=torch.float64)],
    ids=["batch lost", "transposed", "dtype"],
)
def test_a_replacement_of_another_shape_or_dtype_is_refused(replacement):
    chain = Chain()
    with (
        visiting(Edits({"inner.0": lambda tensor: replacement})),
        pytest.raises(ValueError, match=r"inner\.0: a replacement must be torch.float32 \(2, 3\)"),
    ):
        chain(torch.zeros(2, 3))
