"""What the server refuses before Streamlit sees it."""

import pytest
from streamlit import config, net_util
from streamlit.web.server import server_util

from explorer import guard


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
        ("null", "", False),
        ("", "localhost:8501", False),
        ("http://[", "localhost:8501", False),
    ],
)
def test_an_origin_is_own_or_foreign_by_the_request_alone(
    origin: str | None, host: str, own: bool
) -> None:
    assert guard.is_own(origin, host) is own


def test_names_that_the_owner_gave_are_own(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_nobody_outside_is_asked_for_this_machines_address(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(net_util, "_make_blocking_http_get", lambda url, **_: asked.append(url))
    monkeypatch.setattr(
        net_util, "get_external_ip", net_util.get_external_ip
    )  # put back at the end
    guard.stay_inside()
    assert not server_util.is_url_from_allowed_origins("http://elsewhere")
    assert not asked
