"""What the server refuses before Streamlit sees it."""

import base64
import hashlib
import json
from functools import partial

import pytest
from asgi import asked as asked_of
from streamlit import config

from explorer import cli, guard

asked = partial(asked_of, guard.Guard)


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        (None, "app.example", True),  # no page: a program
        ("http://app.example", "app.example", True),
        ("https://app.example:8443", "app.example:8443", True),
        ("http://localhost:3000", "localhost:8501", True),
        ("http://elsewhere", "localhost:8501", False),
        ("http://localhost.elsewhere", "localhost:8501", False),
        ("http://app.example:1", "app.example:2", False),
        ("http://8.8.8.8", "localhost:8501", False),
        ("null", "localhost:8501", False),
        ("", "localhost:8501", False),
        ("http://[", "localhost:8501", False),
    ],
)
def test_an_origin_is_own_or_foreign_by_the_request_alone(origin, host, own):
    assert guard.is_own(origin, host) is own


def test_a_frame_may_be_asked_for_by_1_and_gives_no_orders():
    found = asked("/heads?lang=en&embed=1&text=a+b")
    assert (found.status, found.headers["location"]) == (307, "?lang=en&embed=true&text=a+b")
    assert asked("/heads?embed=10&text=embed=1").status == 200
    answer = asked("/_stcore/host-config")
    assert json.loads(answer.body) == {"allowedOrigins": [], "useExternalAuthToken": False}


def test_names_that_the_owner_gave_are_own(monkeypatch):
    given = {
        "server.enableCORS": True,
        "server.corsAllowedOrigins": ["https://class.example", "school.example"],
        "browser.serverAddress": "front.example",
    }
    monkeypatch.setattr(config, "get_option", given.__getitem__)
    monkeypatch.setattr(config, "is_manually_set", lambda name: True)
    for name in ("class", "school", "front"):
        assert guard.is_own(f"https://{name}.example", "10.0.0.1:8501")
    assert not guard.is_own("https://elsewhere.example", "10.0.0.1:8501")
    given["server.enableCORS"] = False
    assert guard.is_own("https://elsewhere.example", "10.0.0.1:8501")


def test_each_answer_says_what_a_browser_may_do_and_who_may_frame_the_app(monkeypatch):
    for path in ("/", "/static/js/none.js", "/media/a.png", "/_stcore/health", "/_stcore/metrics"):
        said = asked(path).headers
        assert said["x-content-type-options"] == "nosniff"
        assert said["x-frame-options"] == "SAMEORIGIN"
        assert said["referrer-policy"] == "same-origin"
        policy = said["content-security-policy"].split("; ")
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'self'" in policy
        assert not any("unsafe-eval" in each or "*" in each or "http" in each for each in policy)
        assert [each for each in policy if "unsafe-inline" in each] == [
            "style-src 'self' 'unsafe-inline'"
        ]
    page = "<script>\n  a = 1\n</script><script src='./b.js'></script>"
    found = base64.b64encode(hashlib.sha256(b"\n  a = 1\n").digest()).decode()
    assert f"script-src 'self' blob: 'sha256-{found}';" in guard.policy(page, ())
    monkeypatch.setenv(guard.EMBEDDING, "https://school.example:8443, https://*.example.org")
    said = asked("/").headers
    wanted = "frame-ancestors 'self' https://school.example:8443 https://*.example.org"
    assert said["content-security-policy"].endswith(wanted)
    assert "x-frame-options" not in said
    monkeypatch.setenv(guard.METRICS, "1")
    assert asked("/_stcore/metrics").body == b"other"
    assert asked("/_stcore/agent/mcp").status == 404


@pytest.mark.parametrize(
    "named", ["*", "school.example", "https://a.example/page", "https://a; script-src *", "null"]
)
def test_what_is_no_origin_is_refused(monkeypatch, capsys, named):
    monkeypatch.setenv(guard.EMBEDDING, f"https://school.example {named}")
    with pytest.raises(ValueError, match="HEADLIGHT_EMBED_ORIGINS must be origins such as"):
        guard.embedding()
    assert cli.main(["app"]) == 2
    assert "HEADLIGHT_EMBED_ORIGINS must be origins such as" in capsys.readouterr().err


def test_addresses_that_no_page_needs_are_closed():
    for name in ("metrics", "agent/openapi.json", "agent/mcp", "script-health-check"):
        for base in ("", "/base"):
            answer = asked(f"{base}/_stcore/{name}")
            assert (answer.status, answer.body) == (404, b"Not found"), (base, name)


def test_a_body_is_read_before_an_early_answer_but_never_asked_for():
    """Caddy closes the connection of a client that is still sending when the answer is complete."""
    answer = asked("/", {"content-length": "12"}, [b"abcd"] * 3)
    assert answer.body == b"other"
    assert answer.unread == [0, 0]
    answer = asked("/", {"content-length": "12", "expect": "100-continue"}, [b"abcd"] * 3)
    assert answer.unread == [3, 3]
    assert asked("/").unread == [0, 0]
