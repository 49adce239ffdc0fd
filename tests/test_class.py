"""A class that opens the same page of a new server in the same moment: everybody gets it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
from browser.app import running_app
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from explorer.pages import PAGES

SENTENCE = "I like the young dogs."
N_VISITORS = 4
PATIENCE = 60
"""Seconds without a word from the server after which it stands still."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The stream of a new server: nobody has asked it for anything."""
    with running_app() as found:
        yield found.replace("http", "ws") + "/_stcore/stream"


def opened(address: str, page: str) -> list[ForwardMsg]:
    """All that one new visitor is sent until her page stands. Raises TimeoutError."""
    message, answers = BackMsg(), []
    message.rerun_script.page_name = page
    message.rerun_script.query_string = urlencode({"lang": "en", "text": SENTENCE})
    with connect(address, subprotocols=[Subprotocol("streamlit")], max_size=None) as socket:
        socket.send(message.SerializeToString())
        while not answers or answers[-1].WhichOneof("type") != "script_finished":
            raw = socket.recv(PATIENCE)
            assert isinstance(raw, bytes)
            answers.append(ForwardMsg.FromString(raw))
    return answers


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page.name, marks=() if at % 8 == 0 else pytest.mark.sweep)
        for at, page in enumerate(PAGES)
    ],
)
def test_everybody_gets_the_page(address, page):
    with ThreadPoolExecutor(N_VISITORS) as pool:
        for answers in pool.map(lambda _: opened(address, page), range(N_VISITORS)):
            elements = [answer.delta.new_element for answer in answers]
            assert not [each for each in elements if each.WhichOneof("type") == "exception"]
            assert any(SENTENCE.split()[-1] in str(each) for each in elements)
