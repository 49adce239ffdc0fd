"""The setup of the next training: task, architecture, optimisation and fault."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.training.choices import TrainingChoices, decoded
from explorer.exhibits.training.room import ASKED
from explorer.training import pairs
from explorer.training.pairs import PairCounts
from explorer.training.setup import ARCHITECTURE, AT_START, OPTIONS, RANGES, TRAINING, Setup

NAMES = {
    "d_model": "d_model",
    "d_ff": "d_ff",
    "dropout": "Dropout",
    "sqrt": "√d_head",
    "d_head": "d_head",
    "adamw": "AdamW",
    "muon": "Muon",
}
"""Values that are not translated."""
STEPS: dict[str, float] = {"rate": 1e-4, "dropout": 0.05, "smoothing": 0.05, "weight_decay": 0.01}


def compute(asked: Setup) -> PairCounts | None:
    """How many of the user's own pairs are used; None for another task."""
    return pairs.read(asked.text).counts if asked.task == "own" else None


def show(counts: PairCounts | None, view: View) -> b.Blocks:
    """The controls, the user's own pairs, and the settings that were changed."""
    choices = view.choices(TrainingChoices)
    if choices.room and not choices.runs:
        yield b.Hint(view.t("training.gone"), "info")
    yield b.Row(tuple(_controls(view, choices.setup)))
    if counts is not None:
        yield from _own_pairs(view, choices, counts)
    changes = choices.setup.changes()
    if changes := {name: value for name, value in changes.items() if name != "task"}:
        yield b.Row(_changed(view, choices.setup, changes), "center")


def _controls(view: View, setup: Setup) -> b.Blocks:
    yield _menu(view, setup, "task", 230)
    note = b.Note(view.t("training.architecture_note"))
    architecture = (note, _fields(view, setup, ARCHITECTURE))
    yield b.Fold(view.t("training.architecture"), architecture, icon="account_tree")
    yield b.Fold(view.t("training.how"), (_fields(view, setup, TRAINING),), icon="tune")
    yield b.Fold(view.t("training.fault"), tuple(_fault(view, setup)), icon="bug_report")


def _changed(view: View, setup: Setup, changes: dict[str, Any]) -> tuple[b.Block, ...]:
    """The settings that differ from the defaults, and a button to reset them."""
    named = (f"{label_of(view, name)} {value_of(view, name, v)}" for name, v in changes.items())
    note = b.Note(view.t("training.changed", settings=" · ".join(named)))
    usual = b.choose(setup=Setup(task=setup.task))
    return note, b.Button("training.usual", view.t("training.usual"), usual, kind="quiet")


def _setting(name: str) -> Callable[[Any], b.Change]:
    """The change of one setting of the next training."""

    def change(value: Any) -> b.Change:
        return b.Change(
            lambda state: {"setup": replace(state.of(TrainingChoices).setup, **{name: value})}
        )

    return change


def _menu(view: View, setup: Setup, name: str, width: int | None = None) -> b.Pick:
    return b.Pick(
        f"training.set.{name}",
        label_of(view, name),
        {value: value_of(view, name, value) for value in OPTIONS[name]},
        getattr(setup, name),
        _setting(name),
        "menu",
        b.Display(width),
    )


def value_of(view: View, name: str, value: Any) -> str:
    """A setting's value in words."""
    if name == "task":
        return view.t("training.tasks", value)
    if name in ("norm", "positions", "ffn"):
        return view.t("designs", name, value)
    if name == "fault":
        return view.t("training.faults", value or "none", "title")
    if isinstance(value, bool):
        return view.t("training.on" if value else "training.off")
    if not isinstance(value, str):
        return f"{value:g}"
    return NAMES.get(value) or view.t("training.values", value)


def label_of(view: View, name: str) -> str:
    """The label of a setting."""
    return NAMES.get(name) or view.t("training.fields", name)


def _fields(view: View, setup: Setup, names: Sequence[str]) -> b.Columns:
    """Two columns of settings: menus, numbers with their range, switches."""
    fields = [_field(view, setup, name) for name in names]
    return b.Columns((fields[::2], fields[1::2]), gap="small")


def _field(view: View, setup: Setup, name: str) -> b.Control:
    key, label, value = f"training.set.{name}", label_of(view, name), getattr(setup, name)
    if name in OPTIONS:
        return _menu(view, setup, name)
    if isinstance(value, bool):
        return b.Toggle(key, label, value, _setting(name))
    low, high = RANGES[name]
    if isinstance(value, int):
        scale = b.Span(int(low), int(high))
    else:
        scale = b.Span(low, high, STEPS.get(name, 0.1), "%.5g")
    return b.Slider(key, label, scale, value, _setting(name), typed=True)


def _fault(view: View, setup: Setup) -> b.Blocks:
    """Controls for a fault from the start, or from a step on."""
    yield _menu(view, setup, "fault")
    if setup.fault and setup.fault not in AT_START:
        yield _field(view, setup, "from_step")
    if setup.fault:
        yield b.Prose(view.t("training.faults", setup.fault, "what"))


def _own_pairs(view: View, choices: TrainingChoices, counts: PairCounts) -> b.Blocks:
    """Fields to paste or upload pairs, with the number of pairs used."""
    pasted = b.TextBox(
        "training.pairs",
        view.t("training.pairs"),
        choices.pairs,
        lambda text: b.choose(pairs=text),
        120,
        pairs.MOST_CHARS,
        b.Display(hint=view.t("training.pairs_hint")),
    )
    file = b.Upload(
        "training.pairs_file",
        view.t("training.pairs_file"),
        lambda file: b.choose(pairs_file=file and file[1]),
    )
    yield b.Columns(((pasted,), (file,)), (2, 1), gap="small")
    if choices.pairs_file is not None and decoded(choices.pairs_file) is None:
        yield b.Hint(view.t("training.pairs_encoding"), "info", warns=True)
    sentences = [view.t("training.pairs_read", count=counts.used)]
    sentences += [view.t("training.pairs_left", k, count=n) for k, n in counts.left_out.items()]
    yield b.Note(" ".join(sentences))
    if counts.used and counts.same_sides == counts.used:
        yield b.Hint(view.t("training.pairs_same"))
    elif 0 < counts.used <= pairs.FEW:
        yield b.Hint(view.t("training.pairs_few", count=counts.used))


EXHIBIT = Exhibit(compute, show, inputs=ASKED)
