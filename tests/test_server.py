"""What the server lets in as it comes: `streamlit run app.py` with the settings of this project."""

import http.client
import os
import select
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode

import pytest
from browser.app import answers, free_port, messages, running_app, serving, until_answering
from cores import every
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from explorer import cli
from explorer.pages import PAGES

MEGABYTE = 1_000_000
STREAM = [Subprotocol("streamlit")]


@pytest.fixture(scope="module")
def port(tmp_path_factory) -> Iterator[int]:
    """The app started without any option about its address or its limits.

    Its way outside is a proxy that never answers, and that nothing may call (asserted at the end).
    """
    found = free_port()
    outside = socket.create_server(("127.0.0.1", 0))
    outside.settimeout(0)
    proxy = f"http://127.0.0.1:{outside.getsockname()[1]}"
    log = tmp_path_factory.mktemp("server") / "log"
    options = ["--server.port", str(found), "--server.headless", "true"]
    command = ["-m", "streamlit", "run", "app.py", *options]
    environment = os.environ | dict.fromkeys(("http_proxy", "https_proxy"), proxy)
    with log.open("w") as out, outside:
        with serving(command, found, env=environment, stdout=out, stderr=out) as server:
            assert "Network URL" not in log.read_text()
            assert f"headlight: http://localhost:{found}\n" in log.read_text()
            yield found
        assert server.returncode == 0  # cleared up, and not just ended
        with pytest.raises(BlockingIOError):
            outside.accept()


def test_only_this_machine_and_its_own_site_are_answered_and_others_hold_nobody_up(port):
    """A server on every address would answer at 127.0.0.2 too, which Linux routes to itself."""
    assert answers(f"http://127.0.0.1:{port}/_stcore/health")
    assert not answers(f"http://127.0.0.2:{port}/_stcore/health")
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/_stcore/health", headers={"Origin": "https://example.org"}
    )
    with urllib.request.urlopen(asked, timeout=180) as response:
        allowed = response.headers.get("Access-Control-Allow-Origin", "")
    assert allowed != "*"
    assert "example.org" not in allowed
    address = f"ws://127.0.0.1:{port}/_stcore/stream"
    with connect(address, subprotocols=STREAM, origin=Origin(f"http://127.0.0.1:{port}")):
        pass
    with (
        pytest.raises((InvalidStatus, ConnectionClosed)),
        connect(address, subprotocols=STREAM, origin=Origin("https://example.org")) as other,
    ):
        other.recv(timeout=180)
    # Streamlit asked a service on the internet at each of these, on the event loop: here the proxy.
    for n in range(8):
        with pytest.raises(InvalidStatus), connect(address, origin=Origin(f"http://elsewhere{n}")):
            pass
    assert answers(f"http://127.0.0.1:{port}/_stcore/health")


def session_id(client: ClientConnection, query: str = "") -> str:
    new = (each.new_session for each in messages(client, query) if each.HasField("new_session"))
    return next(new).initialize.session_id


def test_messages_and_uploads_stay_below_their_limits_and_need_the_token_of_the_page(port):
    address = f"ws://127.0.0.1:{port}/_stcore/stream"
    with connect(address, subprotocols=STREAM) as client:
        assert session_id(client, "pad=" + "x" * MEGABYTE)
    with connect(address, subprotocols=STREAM) as client, pytest.raises(ConnectionClosed):
        session_id(client, "pad=" + "x" * 33 * MEGABYTE)
    assert answers(f"http://127.0.0.1:{port}/_stcore/health")
    asked = urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=180)
    (cookie,) = (v for k, v in asked.headers.items() if k.lower() == "set-cookie")
    name, _, token = cookie.partition(";")[0].partition("=")
    trusted = {"Cookie": f"{name}={token}", "X-Xsrftoken": token}
    with connect(f"ws://127.0.0.1:{port}/_stcore/stream", subprotocols=STREAM) as client:
        session = session_id(client)
        assert upload(port, session, 1000, {}) == 403
        assert upload(port, session, 1000, {"X-Xsrftoken": token}) == 403
        assert upload(port, session, 1000, trusted) == 204
        assert upload(port, session, 1_200_000, trusted) == 413


def upload(port: int, session: str, size: int, headers: dict[str, str]) -> int:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=180)
    rim = b"rim"
    start = b'--rim\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    body = start + b"a" * size + b"\r\n--" + rim + b"--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=rim"}
    try:
        line.request("PUT", f"/_stcore/upload_file/{session}/f", body, headers | kind)
        return line.getresponse().status
    finally:
        line.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_session_that_ended_gives_its_descriptors_back_without_another_visitor():
    """Streamlit looks for such sessions only when the next one ends: the last ones stayed."""
    port = free_port()
    options = ["--server.port", str(port), "--server.headless", "true"]
    command = ["-m", "streamlit", "run", "app.py", *options]
    with serving([*command, "--server.disconnectedSessionTTL", "1"], port) as server:
        opened = Path(f"/proc/{server.pid}/fd")
        before = len(list(opened.iterdir()))
        address = f"ws://127.0.0.1:{port}/_stcore/stream"
        with ExitStack() as visitors:
            for _ in range(5):
                client = visitors.enter_context(connect(address, subprotocols=STREAM))
                assert session_id(client)
            assert len(list(opened.iterdir())) >= before + 15  # three of each event loop
        until, ended = time.monotonic() + 180, os.pidfd_open(server.pid)
        while len(list(opened.iterdir())) > before and time.monotonic() < until:
            assert not select.select([ended], [], [], 0.05)[0]  # waits; the server runs on
        os.close(ended)
        assert len(list(opened.iterdir())) <= before


IN_HASTE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from explorer import admission
from streamlit.web import cli
admission.SILENT = 2.0
cli.main(sys.argv[1:], prog_name="streamlit")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_half_sent_requests_beyond_the_descriptors_neither_stay_nor_fill_the_log(tmp_path):
    """80 of them once wrote 18 MB of tracebacks, and stayed."""
    port, log = free_port(), tmp_path / "log"
    options = ["run", "app.py", "--server.port", str(port), "--server.headless", "true"]
    command = ["-c", IN_HASTE, *options]
    with (
        log.open("w") as out,
        ExitStack() as connections,
        serving(command, port, stdout=out, stderr=out) as server,
    ):
        for _ in range(80):
            half = connections.enter_context(socket.create_connection(("127.0.0.1", port)))
            half.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n")
        until_answering(server, port)
        assert "takes 6 sessions per process (limited by descriptors)" in log.read_text()
        assert log.stat().st_size < 20_000


@pytest.fixture
def started(monkeypatch) -> list[list[str]]:
    """What `headlight app` would start Streamlit with."""
    calls: list[list[str]] = []
    monkeypatch.setattr("streamlit.web.cli.main", lambda said, **_: calls.append(said))
    monkeypatch.delenv(cli.ADDRESS_VARIABLE, raising=False)
    return calls


@pytest.mark.parametrize(
    ("arguments", "address", "said"),
    [
        ([], [], "localhost only"),
        (["--public"], ["--server.address", "0.0.0.0"], "everyone who can reach this machine"),
        (["--server.address=10.1.2.3"], ["--server.address=10.1.2.3"], "set in server.address"),
        ([cli.ADDRESS_VARIABLE], [], "set in server.address"),
    ],
)
def test_who_can_reach_the_app_is_asked_for_and_said(
    started, capsys, arguments, address, said, monkeypatch
):
    if arguments == [cli.ADDRESS_VARIABLE]:
        monkeypatch.setenv(arguments.pop(), "0.0.0.0")
    assert cli.main(["app", *arguments]) == 0
    assert said in capsys.readouterr().out
    assert started[0][2:] == address


def test_two_addresses_are_refused(started, capsys):
    assert cli.main(["app", "--public", "--server.address", "10.1.2.3"]) == 2
    assert "--public and --server.address both set" in capsys.readouterr().err
    assert not started


SENTENCE = "I like the young dogs."
N_VISITORS = 4


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The stream of a new server: nobody has asked it for anything."""
    with running_app() as found:
        yield found.replace("http", "ws") + "/_stcore/stream"


def opened(address: str, page: str) -> list[ForwardMsg]:
    """All that one new visitor is sent until her page stands. Raises TimeoutError."""
    with connect(address, subprotocols=STREAM, max_size=None) as client:
        return list(messages(client, urlencode({"lang": "en", "text": SENTENCE}), page))


@pytest.mark.parametrize("page", every(8, (page.name for page in PAGES)))
def test_everybody_gets_the_page(address, page):
    with ThreadPoolExecutor(N_VISITORS) as pool:
        for answers in pool.map(lambda _: opened(address, page), range(N_VISITORS)):
            elements = [answer.delta.new_element for answer in answers]
            assert not [each for each in elements if each.WhichOneof("type") == "exception"]
            assert any(SENTENCE.split()[-1] in str(each) for each in elements)


def test_nothing_is_sent_by_the_hash_of_what_a_browser_may_have_dropped_since(address):
    with connect(address, subprotocols=STREAM, max_size=None) as client:
        first = list(messages(client))
        again = list(messages(client, kept=[message.hash for message in first]))
    assert any(message.metadata.cacheable for message in first)
    assert not any(message.HasField("ref_hash") for message in again)
