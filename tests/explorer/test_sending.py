"""What a fragment's rerun sends: the elements that the browser does not show yet."""

from collections.abc import Sequence

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from explorer.messages import Screen

PART = "the fragment"


def run(screen: Screen, *drawn: tuple[Sequence[int], str], is_part: bool = True) -> list[str]:
    """The paths that a run sends, with their text ("" for a container), and its ends."""
    begin, end = ForwardMsg(), ForwardMsg()
    begin.new_session.name = "app"
    end.script_finished = 3 if is_part else 0
    for message in (begin, end) if is_part else ():
        message.metadata.run.script_run_id = "now"
        message.metadata.run.fragment_ids.append(PART)
    sent = screen.moved([begin, *(element(*place) for place in drawn), end])
    return [named(message) for message in sent if message.WhichOneof("type") != "new_session"]


def element(path: Sequence[int], text: str) -> ForwardMsg:
    message = ForwardMsg(hash=f"{text}")
    message.metadata.delta_path[:] = path
    message.delta.fragment_id = PART
    if text == "wait":
        message.delta.new_transient.SetInParent()
    elif text.startswith("toggle"):
        message.delta.new_element.checkbox.id = text.split()[0]
    elif text:
        message.delta.new_element.markdown.body = text
    else:
        message.delta.add_block.vertical.SetInParent()
        message.hash = "container"
    return message


def named(message: ForwardMsg) -> str:
    if message.WhichOneof("type") == "script_finished":
        (*fragments,) = message.metadata.run.fragment_ids
        return f"end {message.metadata.run.script_run_id} {' '.join(fragments)}"
    path = ".".join(map(str, message.metadata.delta_path))
    new = message.delta.new_element
    return f"{path} {new.markdown.body or new.checkbox.id}".strip()


TREE = (((0,), ""), ((0, 0), "first"), ((0, 1), ""), ((0, 1, 0), "second"))
NOTHING = f"end headlight-nothing {PART}"


@pytest.fixture
def screen():
    screen = Screen()
    run(screen, *TREE, is_part=False)
    return screen


def test_only_what_has_moved_is_sent(screen):
    assert run(screen, *TREE) == [NOTHING]
    assert run(screen, *TREE[:-1], ((0, 1, 0), "other")) == ["0.1.0 other", NOTHING]
    assert len(run(screen, *TREE, is_part=False)) == len(TREE) + 1


def test_a_container_that_loses_an_element_is_sent_whole(screen):
    clears = "end now headlight-whole"
    assert run(screen, *TREE[:-1]) == ["0.1", clears, NOTHING]
    assert run(screen, *TREE[:2]) == ["0", "0.0 first", clears, NOTHING]
    assert run(screen, *TREE)[:3] == ["0", "0.1", "0.1.0 second"]


def test_a_widget_is_sent_again_if_its_value_was_changed(screen):
    with_toggle = (*TREE, ((0, 2), "toggle"))
    assert "0.2 toggle" in run(screen, *with_toggle)
    assert run(screen, *with_toggle) == [NOTHING]
    screen.choose(["toggle"])
    assert run(screen, *with_toggle) == ["0.2 toggle", NOTHING]


def test_a_replaced_widget_and_all_after_a_spinner_are_removed(screen):
    run(screen, *TREE, ((0, 2), "toggle"))
    replaced = run(screen, *TREE, ((0, 2), "text"))
    assert replaced == ["0.2 text", "0", "0.0 first", "0.1", "0.1.0 second", *replaced[-2:]]
    waited = run(screen, *TREE[:2], ((0, 1), "wait"), *TREE[2:], ((0, 2), "text"))
    assert waited[:5] == ["0", "0.1", "0.1", "0.1.0 second", "0.2 text"]
    assert waited[-2] == "end now headlight-whole"


def test_only_what_a_long_run_has_not_drawn_is_dimmed(screen):
    begin = ForwardMsg()
    begin.new_session.name = "app"
    begin.metadata.run.script_run_id = "now"
    begin.metadata.run.fragment_ids.append(PART)
    assert screen.moved([begin])[0].metadata.run.fragment_ids == ["headlight-whole"]
    assert screen.dims("a run that is over") is None
    late = screen.dims("now")
    assert screen.moved([element((0, 0), "other"), late])[1] is late
    assert late.metadata.run.fragment_ids == [PART]
    screen.moved([element((0, 1), "wait")])
    assert screen.dims("now") is None
