"""The diagram of the model: where its parts lead, in the app and outside it."""

import pytest
from payloads import unpack

from explorer.exhibits.block import Canvas
from explorer.exhibits.links import State
from explorer.exhibits.machine.boxes import EXHIBIT
from explorer.exhibits.machine.choices import MachineChoices
from explorer.exhibits.view import build


@pytest.fixture(scope="module")
def canvas() -> Canvas:
    state = State(model="en-zh", text="I love you.", owned=(MachineChoices(unfolded=1),))
    view = build(state, dark=False)
    shown = EXHIBIT.show(EXHIBIT.answer(view), view)
    return next(block for block in shown if isinstance(block, Canvas))


def names(canvas: Canvas) -> list[str]:
    head, _ = unpack(canvas.payload("file"))
    return [
        box["name"] for column in head["columns"] for _, group in column["groups"] for box in group
    ]


def test_a_part_opens_its_page_at_its_layer(canvas: Canvas) -> None:
    found = names(canvas)
    there = canvas.on["picked"](next(at for at, name in enumerate(found) if "Cross" in name))
    assert there is not None
    assert (there.visit, there.elsewhere) == ("heads", True)
    assert there.choices(State()) == {"site": "cross", "layer": 1, "head": 0}
    assert canvas.on["picked"](found.index("Tokens")) is None


@pytest.mark.parametrize("at", [-1, 999, "1", None, True, [1]])
def test_a_message_that_names_no_part_is_ignored(canvas: Canvas, at: object) -> None:
    assert canvas.on["picked"](at) is None


def test_every_part_has_the_address_of_its_page(canvas: Canvas) -> None:
    head, _ = unpack(canvas.payload("file", lambda change: f"{change.visit}?"))
    found = dict(zip(names(canvas), head["hrefs"], strict=True))
    pages = {"Embedding": "cell?", "Norm": "blocks?", "Output": "decoding?", "Tokens": ""}
    assert {name: found[name] for name in pages} == pages


def test_outside_the_app_there_are_no_links(canvas: Canvas) -> None:
    head, _ = unpack(canvas.payload("file"))
    assert not any(head["hrefs"])
