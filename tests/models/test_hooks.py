"""Hook points: identity unless visited, named by path, private to a thread, gone after an error."""

import threading

import pytest
import torch
from families import hook_names
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


def test_without_a_visitor_a_hook_point_hands_on_the_very_tensor():
    x = torch.randn(3)
    for hook in (HookPoint(), FastHookPoint()):
        assert hook(x) is x
    assert not hook.wanted


def test_names_are_paths_in_module_order():
    assert hook_names(Chain()) == ("hook_first", "inner.0", "inner.1")


def test_record_keeps_only_what_it_wants():
    chain = Chain()
    record = Record(lambda name: name.startswith("inner"))
    with visiting(record):
        chain(torch.tensor([1.0, 2.0]))
    assert set(record.activations) == {"inner.0", "inner.1"}
    assert record.activations["inner.1"].tolist() == [4.0, 6.0]  # (x + 1) * 2


def test_record_is_a_detached_copy():
    chain = Chain()
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    record = Record(everything)
    with visiting(record):
        chain(x)
    with torch.no_grad():
        x.zero_()
    kept = record.activations["hook_first"]
    assert kept.tolist() == [1.0, 2.0]
    assert not kept.requires_grad


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


def test_record_keeps_the_last_pass():
    chain = Chain()
    record = Record(everything)
    with visiting(record):
        chain(torch.zeros(1))
        chain(torch.ones(1))
    assert record.activations["hook_first"].item() == 1.0


def test_an_edit_changes_what_comes_after_it_and_only_inside_the_block():
    chain = Chain()
    x = torch.tensor([1.0])
    assert chain(x).item() == 8.0
    with visiting(Edits({"inner.0": lambda tensor: tensor + 10})):
        assert chain(x).item() == 48.0  # ((1 + 1) + 10) * 4
    assert chain(x).item() == 8.0


def test_record_sees_what_the_model_went_on_with():
    record = Record(everything, Edits({"hook_first": torch.zeros_like}))
    with visiting(record):
        out = Chain()(torch.tensor([5.0]))
    assert record.activations["hook_first"].item() == 0.0
    assert record.activations["inner.0"].item() == 1.0
    assert out.item() == 4.0


def test_an_edit_that_nobody_records_still_happens():
    record = Record(lambda name: name == "inner.1", Edits({"hook_first": torch.zeros_like}))
    with visiting(record):
        Chain()(torch.tensor([5.0]))
    assert set(record.activations) == {"inner.1"}
    assert record.activations["inner.1"].item() == 2.0


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


def test_four_threads_on_one_shared_model_collect_only_their_own(tiny_model, run_model):
    model = tiny_model()
    n_threads, n_runs = 4, 12
    start = threading.Barrier(n_threads)
    lengths: dict[int, set[tuple[int, int]]] = {}
    counts: dict[int, int] = {}

    class Counting(Record):
        def __call__(self, name, tensor):
            counts[me()] = counts.get(me(), 0) + 1
            lengths.setdefault(me(), set()).add((owner[id(self)], tensor.shape[-1]))
            return super().__call__(name, tensor)

    owner: dict[int, int] = {}
    numbers: dict[int, int] = {}

    def me() -> int:
        return numbers[threading.get_ident()]

    def work(number: int) -> None:
        numbers[threading.get_ident()] = number
        # Every thread has a length of its own, so that a stranger's tensor shows by its shape.
        tokens = torch.full((1, 3 + number), 4 + number)
        start.wait(timeout=10)
        for _ in range(n_runs):
            record = Counting(lambda name: name == "decoder.blocks.1.attn.hook_pattern")
            owner[id(record)] = number
            with visiting(record), torch.no_grad():
                run_model(model, tokens, tokens)
            assert set(record.activations) == {"decoder.blocks.1.attn.hook_pattern"}

    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    assert counts == dict.fromkeys(range(n_threads), n_runs)
    assert lengths == {number: {(number, 3 + number)} for number in range(n_threads)}


def test_a_new_thread_starts_unvisited():
    hook = FastHookPoint()
    seen = []
    with visiting(Record(everything)):
        thread = threading.Thread(target=lambda: seen.append(hook.wanted))
        thread.start()
        thread.join(timeout=10)
        assert hook.wanted
    assert seen == [False]
