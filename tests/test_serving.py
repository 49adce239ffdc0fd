"""What the server does beside Streamlit: files from memory, nothing held back."""

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from asgi import asked
from browser.app import free_port, serving as server_of
from streamlit import file_util
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.scriptrunner import RerunData
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequests
from streamlit.testing.v1 import AppTest
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from explorer import patches, serving
from explorer.front import Front
from explorer.scripts import FOLDER, SCRIPTS, script

ROOT = Path(__file__).parents[1]
SCRIPT = next((Path(file_util.get_static_dir()) / "static" / "js").glob("index.*.js"))


def test_the_front_end_comes_from_memory_as_it_is_on_disk():
    answer = asked(serving.FromMemory, f"/static/js/{SCRIPT.name}")
    headers = answer.headers
    assert answer.status == 200
    assert answer.body == SCRIPT.read_bytes()
    assert headers["content-length"] == str(SCRIPT.stat().st_size)
    assert headers["content-type"] in ("application/javascript", "text/javascript")
    assert "immutable" in headers["cache-control"]


def test_what_gains_from_it_is_compressed_for_browsers_that_accept_it():
    accepting = {"accept-encoding": "gzip, br"}
    answer = asked(serving.FromMemory, f"/static/js/{SCRIPT.name}", accepting)
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(answer.body) == SCRIPT.read_bytes()
    assert len(answer.body) < SCRIPT.stat().st_size / 2
    assert answer.headers["vary"] == "accept-encoding"
    font = next((Path(file_util.get_static_dir()) / "static" / "media").glob("*.woff2"))
    assert asked(serving.FromMemory, f"/static/media/{font.name}", accepting).body == (
        font.read_bytes()
    )
    page = asked(Front, "/?lang=en", accepting)
    assert gzip.decompress(page.body) == asked(Front, "/?lang=en").body
    assert page.headers["vary"] == "accept-language, accept-encoding"


def test_a_view_has_its_script_and_rules_at_a_name_of_its_content_and_not_in_messages():
    source, name = script("matrices")
    answer = asked(serving.FromMemory, f"/base/{SCRIPTS}/{name}")
    assert answer.body.decode() == source
    assert "immutable" in answer.headers["cache-control"]
    assert json.dumps((FOLDER / "matrices.css").read_text("utf-8"))[1:-1] in source
    at = AppTest.from_string(
        "from explorer.components.mount import view\nview('matrices')(key='a', data={})"
    ).run()
    (sent,) = (each.proto for each in at.get("bidi_component"))
    assert script("matrices")[1] in sent.js_content
    assert len(sent.SerializeToString()) < 1000


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/", "GET"),
        (f"/{SCRIPTS}/matrices.0123456789abcdef.js", "GET"),
        (f"/{SCRIPTS}/{SCRIPTS}.js", "GET"),
        (f"/other/{script('matrices')[1]}", "GET"),
        ("/static/js/../../index.html", "GET"),
        ("/static/js/none.js", "GET"),
        (f"/static/js/{SCRIPT.name}", "HEAD"),
    ],
)
def test_all_else_is_answered_by_the_app(path, method):
    assert asked(serving.FromMemory, path, method=method).body == b"other"


def test_a_connection_sends_without_delay(monkeypatch):
    made: list[object] = []
    usual: Callable[..., None] = lambda self, transport: made.append(transport)  # noqa: E731
    monkeypatch.setattr(AutoHTTPProtocol, "connection_made", usual)
    watched: list[object] = []
    monkeypatch.setattr(patches, "watch", lambda protocol, loop: watched.append(protocol))
    patches.send_at_once()
    with socket.socket() as connection:
        transport = SimpleNamespace(get_extra_info={"socket": connection}.get)
        protocol = SimpleNamespace(loop=None)
        AutoHTTPProtocol.connection_made(protocol, transport)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    assert made == [transport]
    assert watched == [protocol]


FOLD = ScriptRequests._request_rerun_locked


@pytest.mark.parametrize("parts", [[], ["the part's id"]])
def test_a_late_request_of_a_part_stays_on_the_open_page(parts, monkeypatch):
    ran_on: list[str] = []
    usual = lambda self, data: ran_on.append(data.page_script_hash)  # noqa: E731
    monkeypatch.setattr(ScriptRunner, "_run_script", usual)
    monkeypatch.setattr(ScriptRequests, "_request_rerun_locked", None)  # as it was, afterwards
    patches.keep_the_page()
    pages = SimpleNamespace(current_page_script_hash="open")
    runner = cast(ScriptRunner, SimpleNamespace(_pages_manager=pages))
    ScriptRunner._run_script(runner, RerunData(page_script_hash="left", fragment_id_queue=parts))
    assert ran_on == ["open" if parts else "left"]


@pytest.mark.parametrize("is_part_first", [True, False])
def test_a_part_does_not_take_back_a_page_that_waits(is_part_first, monkeypatch):
    monkeypatch.setattr(ScriptRunner, "_run_script", None)
    monkeypatch.setattr(ScriptRequests, "_request_rerun_locked", FOLD)
    patches.keep_the_page()
    page = RerunData(query_string="head=3", page_script_hash="next", page_name="next")
    part = RerunData(query_string="", page_script_hash="left", fragment_id="the part's id")
    requests = ScriptRequests()
    for each in (part, page) if is_part_first else (page, part):
        assert requests.request_rerun(each)
    found = requests.on_scriptrunner_ready().rerun_data
    assert (found.page_script_hash, found.page_name, found.query_string) == (
        "next",
        "next",
        "head=3",
    )
    assert found.fragment_id_queue == []


@pytest.mark.parametrize("by_timer", [True, False])
def test_a_press_or_a_timer_does_not_undo_what_was_set_since(by_timer, monkeypatch):
    monkeypatch.setattr(ScriptRunner, "_run_script", None)
    monkeypatch.setattr(ScriptRequests, "_request_rerun_locked", FOLD)
    patches.keep_the_page()
    typed = WidgetState(id="typed", string_value="waits to be run")
    older = WidgetState(id="older", string_value="was replaced since")
    press = [] if by_timer else [WidgetState(id="press", trigger_value=True)]
    requests = ScriptRequests()
    for is_auto, states in ((False, [typed]), (by_timer, [older, *press])):
        widgets = WidgetStates(widgets=states)
        part = RerunData(fragment_id="part", widget_states=widgets, is_auto_rerun=is_auto)
        assert requests.request_rerun(part)
    waiting = requests.on_scriptrunner_ready().rerun_data.widget_states
    assert waiting is not None
    assert [*waiting.widgets] == [typed, *press]


IN_TURN = """
import sys
def loaded(*names):
    return [name for name in names if name in sys.modules]
from explorer.library import open_model
import torch
from models.fast import without_numbers
open_model("copy")  # torch imports its compiler (5 s) to draw numbers for a tensor without storage
with without_numbers():  # or to join two: query and key of a Llama
    print(torch.cat((torch.empty(2, 3), torch.empty(2, 4)), dim=1).shape)
print(loaded("torch._dynamo"))
import explorer.__main__
print(loaded("streamlit", "plotly", "pandas", "torch._dynamo", "explorer.analysis.alignment.study"))
import explorer.shell
print(loaded("explorer.analysis.cases"))
print([each for each in sys.modules if each[:14] == "explorer.pages" and each[-5:] == ".page"])
"""
"""A model and the shell's commands wait for torch alone, the app's frame for no page."""


def test_nothing_is_imported_before_it_is_needed():
    assert printed(IN_TURN).splitlines() == ["torch.Size([2, 7])", *["[]"] * 4]
    server = "import sys, app; print([each for each in ('torch', 'numpy') if each in sys.modules])"
    assert printed(server) == "[]"


def printed(code: str) -> str:
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return said.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_torch_s_libraries_are_there_before_it_is_imported():
    code = (
        "import sys; from pathlib import Path; from explorer.serving import load_libraries;"
        "load_libraries();"
        "print('libtorch_cpu' in Path('/proc/self/maps').read_text(), 'torch' in sys.modules)"
    )
    assert printed(code) == "True False"


LEAVE = """
import os, signal, tempfile
from explorer.sandbox.apart import prefix
held = tempfile.NamedTemporaryFile(prefix=prefix()), tempfile.mkdtemp(prefix=prefix())
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_server_sweeps_what_was_left_and_ends_in_peace_on_ctrl_c(tmp_path):
    """While it gets ready, too: a thread that imports torch would abort the process at its end."""
    port, log, temporary = free_port(), tmp_path / "log", tmp_path / "temporary"
    temporary.mkdir()
    (kept := temporary / f"headlight-{os.getpid()}-kept").touch()
    environment = os.environ | {"TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", LEAVE], cwd=ROOT, env=environment, check=False)
    assert len(list(temporary.glob("headlight-*"))) == 3
    command = ["-m", "streamlit", "run", "app.py", "--server.headless", "true"]
    command += ["--server.port", str(port)]
    with (
        log.open("w") as out,
        server_of(command, port, env=environment, stdout=out, stderr=out) as server,
    ):
        assert list(temporary.glob("headlight-*")) == [kept]
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 0, log.read_text()
    assert "Aborted" not in log.read_text()
