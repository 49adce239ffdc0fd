"""What clicks in the pictures of all heads choose."""

from typing import Any

from explorer.components import HeadsSelection
from explorer.exhibits.block import AllHeads, Change, Columns, Hero
from explorer.exhibits.heads.heads import EXHIBIT
from explorer.exhibits.links import State
from explorer.exhibits.view import build
from explorer.shell import LINKS

FIRST, SECOND = "I like a book.", "She reads a book."


def drawn(**chosen: Any) -> tuple[State, list[AllHeads]]:
    state = LINKS.change(State(text=FIRST), **chosen)
    view = build(state, dark=False)
    blocks = EXHIBIT.show(EXHIBIT.answer(view), view)
    inside = [block for hero in blocks if isinstance(hero, Hero) for block in hero.blocks]
    (picture,) = [block for block in inside if isinstance(block, Columns)]
    drawn = [block for column in picture.columns for block in column]
    return state, [block for block in drawn if isinstance(block, AllHeads)]


def down(block: AllHeads, place: tuple[int, ...]) -> Change:
    assert block.down is not None
    return block.down(place)


def test_a_selection_is_stored_with_pins_scale_and_aggregates() -> None:
    state, (block,) = drawn()
    layers = block.grid.shape[0]
    chosen = HeadsSelection((layers, 0), ((1, 2),), query=2, key=1, scale="log", shared=False)
    change = block.change(chosen)
    assert change.choices(state) == {
        "instead": "mean-1",
        "pins": ((1, 2),),
        "row": 2,
        "key": 1,
        "scale": "log",
        "own_range": True,
        "by_measure": False,
    }


def test_a_cell_of_whole_words_opens_at_their_first_tokens() -> None:
    state, (block,) = drawn(text="unbelievable dogs.", words=True, site="encoder")
    by_token = drawn(text="unbelievable dogs.", site="encoder")[1][0]
    assert block.grid.shape[2] < by_token.grid.shape[2]
    last = block.grid.shape[2] - 1
    change = down(block, (0, 1, last, 0))
    assert change.visit == "score"
    made = change.choices(state)
    assert (made["layer"], made["head"], made["key"]) == (0, 1, 0)
    assert made["row"] == by_token.grid.shape[2] - 1


def test_a_cell_of_the_second_sentence_swaps_the_sentences() -> None:
    state, (left, right) = drawn(beside=f"{SECOND}\nWe went.")
    place = {"layer": 1, "head": 2, "row": 1, "key": 0, "goal": None}
    assert down(left, (1, 2, 1, 0)).choices(state) == place
    swapped = {"text": SECOND, "target": None, "beside": f"{FIRST}\nWe went."}
    assert down(right, (1, 2, 1, 0)).choices(state) == place | swapped


def test_a_cell_of_the_other_model_swaps_the_models() -> None:
    state, (_, right) = drawn(with_="reverse", site="decoder", model="copy", text="a b c")
    change = down(right, (0, 1, 2, 1))
    assert (change.visit, change.elsewhere) == ("score", True)
    made = change.choices(state)
    assert (made["model"], made["with_"]) == ("reverse", "copy")
    assert (made["layer"], made["head"], made["row"], made["key"]) == (0, 1, 2, 1)
