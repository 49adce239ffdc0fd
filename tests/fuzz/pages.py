"""Whole pages behind a link, drawn without a browser, and what a visitor does on them."""

import contextlib
import os
import random
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Widget
from streamlit.testing.v1.util import patch_config_options

from explorer.pages import PAGES
from explorer.training.rooms import VARIABLE as TRAININGS
from explorer.ui import running, session
from tests.designs import parts_of
from tests.fuzz.given import MODELS, damaged, words
from tests.fuzz.texts import parameters

NAMES = [page.name for page in PAGES]
PLACES = [*parts_of(*NAMES), *((name, {}) for name in NAMES)]
WAITED = 10.0
"""Seconds for which a page waits for its work here: in a browser it asks again."""


def page(rng: random.Random, folder: Path) -> None:
    """A whole page behind a link."""
    _open(rng)


def visit(rng: random.Random, folder: Path) -> None:
    """A page, and what a visitor does there; what views send is asked by test_messages."""
    at = _open(rng)
    for _ in range(3):
        if widgets := [each for each in at._tree if isinstance(each, Widget)]:
            _use(rng, at, rng.choice(widgets))
        _check(at)


def _open(rng: random.Random) -> AppTest:
    chosen, asked = rng.choice(PLACES)
    asked = asked | parameters(rng, 4) | {"model": rng.choice(MODELS), "text": words(rng, 80)}
    at = AppTest.from_function(draw_page, default_timeout=60, args=(chosen,))
    for name, text in asked.items():
        at.query_params[name] = text.encode(errors="replace").decode()
    with _as_served():
        at.run()
    _check(at)
    return at


def _check(at: AppTest) -> None:
    said = [f"{each.message}\n{''.join(each.stack_trace)}" for each in at.exception]
    assert not said, f"{said} {str(dict(at.query_params))[:500]}"


@contextlib.contextmanager
def _as_served() -> Iterator[None]:
    """As on a server that allows no trainings, which would outlast the case; there is one page, so
    that nothing leads to another."""
    with (
        patch.dict(os.environ, {TRAININGS: "0"}),
        patch.object(running, "PATIENCE", WAITED),
        patch.object(session, "visit", lambda *_, **__: None),
        patch.object(running, "browser", lambda: ""),  # AppTest has no cookies
        patch_config_options({"client.showErrorDetails": "full"}),
    ):
        yield


def _use(rng: random.Random, at: AppTest, widget: Widget) -> None:
    """Click it, choose another option, or type."""
    sent = WidgetState(id=widget.id)
    options = list(getattr(widget.proto, "options", ()))
    match widget.type:
        case "button" | "download_button":
            sent.trigger_value = True
        case "checkbox" | "toggle":
            sent.bool_value = rng.random() < 0.5
        case "text_area" | "text_input":
            sent.string_value = words(rng).encode(errors="replace").decode()
        case "number_input":
            low, high = widget.proto.min, widget.proto.max
            sent.double_value = rng.choice((low, high, rng.uniform(low, high)))
        case "selectbox" if options:
            sent.string_value = rng.choice(options)
        case "multiselect" if options:
            sent.string_array_value.data[:] = rng.sample(options, rng.randrange(len(options) + 1))
        case "button_group" if options:
            sent.string_array_value.data[:] = [rng.choice(options).content]
        case "file_uploader":
            name = rng.choice(("a.txt", "a.csv", "a.zip", words(rng, 20)))
            data = damaged(rng, "\n".join(words(rng, 60) for _ in "123").encode(errors="replace"))
            widget.set_value((name.encode(errors="replace").decode(), data, "text/plain"))
            sent = None
        case _:
            return
    _send(at, sent)


def _send(at: AppTest, sent: WidgetState | None) -> None:
    states = [] if sent is None else [sent]
    for widget in (each for each in at._tree if isinstance(each, Widget)):
        with contextlib.suppress(KeyError):  # one that nobody has touched
            if sent is None or widget.id != sent.id:
                states.append(widget._widget_state)
    with _as_served():
        at._run(WidgetStates(widgets=states))


def draw_page(name: str) -> None:
    from explorer.pages import PAGES
    from explorer.shell import LINKS, show
    from explorer.ui import session

    session.start(LINKS)
    show(next(page for page in PAGES if page.name == name))
