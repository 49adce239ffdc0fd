"""Protects Streamlit from the network, with or without a proxy in front.

Refuses websockets opened by pages of other sites, and Streamlit addresses that no page needs.
Adds headers that restrict the browser to each response. A refusal of a request with a body is sent
after the body has been read, so that the client receives it.

Streamlit compares a foreign `Origin` with the addresses of this machine, for which it queries a
service on the internet, on the event loop: one such request blocked every session. Here an origin
is compared only with the request's own `Host` and the configured names.

`zipped` makes the responses of our own layers.
"""

import asyncio
import base64
import gzip
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import config, file_util, url_util

LOCAL = frozenset({"localhost", "127.0.0.1", "0.0.0.0"})
"""Hosts that Streamlit trusts on any port: pages on the user's own machine."""
POLICY_VIOLATION = 1008
"""RFC 6455, section 7.4.1."""
EMBEDDING = "HEADLIGHT_EMBED_ORIGINS"
"""The environment variable with the origins whose pages may show the app in a frame."""
METRICS = "HEADLIGHT_METRICS"
"""The environment variable that opens /_stcore/metrics to all: 1. Closed by default."""
_ORIGIN = re.compile(r"https?://(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*(:[0-9]{1,5})?", re.ASCII)
_CLOSED = re.compile(r"/_stcore/(agent(/|$)|script-health-check/?$)")
_EMBED = re.compile(rb"(^|&)embed=1(?=&|$)")
_METRICS = re.compile(r"/_stcore/metrics/?$")
OWN_PAGE = {"allowedOrigins": [], "useExternalAuthToken": False}
"""The host-config that the front end requests: no embedding page may send it commands."""
MOST_DRAINED, PATIENCE = 256_000_000, 30.0
"""Maximum bytes and seconds for reading the body of a refused request."""


def is_own(origin: str | None, host: str | None) -> bool:
    """Whether a request with this `Origin` comes from a page of this app, or from no page.

    Own origins are the `Host` of the request, this machine, `browser.serverAddress` if it is set,
    and the names in `server.corsAllowedOrigins`; any origin if `server.enableCORS` is off.
    """
    if origin is None or not config.get_option("server.enableCORS"):
        return True
    try:
        asked = urlsplit(origin)
        name = asked.hostname
    except ValueError:
        return False
    if not name:  # "null": a sandboxed page, or a file
        return False
    return asked.netloc == host or name in LOCAL or name in map(hostname, configured())


def configured() -> list[str]:
    """The addresses that the operator has named for this app, with or without a scheme."""
    addresses = [str(address) for address in config.get_option("server.corsAllowedOrigins")]
    if config.is_manually_set("browser.serverAddress"):
        addresses.append(str(config.get_option("browser.serverAddress")))
    return addresses


def hostname(address: str) -> str | None:
    """The host of an address, with or without a scheme."""
    return urlsplit(address if "//" in address else f"//{address}").hostname


def embedding() -> tuple[str, ...]:
    """The foreign origins whose pages may embed the app in a frame.

    Raises ValueError if the environment names anything but origins.
    """
    named = os.environ.get(EMBEDDING, "").replace(",", " ").split()
    for origin in named:
        if not _ORIGIN.fullmatch(origin):
            raise ValueError(
                f"{EMBEDDING} must be origins such as https://example.org, separated by spaces, "
                f"not {origin!r}"
            )
    return tuple(named)


def policy(page: str, frames: tuple[str, ...], scripts: Sequence[str] = ()) -> str:
    """The content security policy for Streamlit's front end; `page` is its index.html, `scripts`
    are our own inside a page.

    Inline scripts are allowed by their hashes. Streamlit imports the scripts of
    components as blobs, and scripts create its styles. CSP level 3, W3C.
    """
    inline = [*re.findall(r"<script>(.*?)</script>", page, re.DOTALL), *scripts]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inline]
    allowed = {
        "default-src": ["'none'"],
        "script-src": ["'self'", "blob:", *(f"'sha256-{text}'" for text in hashes)],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:", "blob:"],
        "font-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'self'", *frames],
    }
    return "; ".join(" ".join((name, *sources)) for name, sources in allowed.items())


def headers(scripts: Sequence[str] = ()) -> dict[str, str]:
    """The headers of every response. Raises ValueError as `embedding`."""
    page = Path(file_util.get_static_dir(), "index.html").read_text(encoding="utf-8")
    frames = embedding()
    fields = {
        "content-security-policy": policy(page, frames, scripts),
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",  # links contain the user's text
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    }
    if not frames:  # an older header, which supports no list
        fields["x-frame-options"] = "SAMEORIGIN"
    return fields


def zipped(
    scope: Scope, content: bytes, headers: Mapping[str, str], status: int = 200, kept: bool = False
) -> Response:
    """The response with this content, as gzip if the browser accepts it and gains from it; `kept`:
    compressed once for all."""
    fields = {**headers, "vary": ", ".join(filter(None, (headers.get("vary"), "accept-encoding")))}
    if "gzip" in Headers(scope=scope).get("accept-encoding", ""):
        small = (_small if kept else _small.__wrapped__)(content)
        if len(small) < 0.9 * len(content):  # fonts and pictures are compressed already
            content, fields["content-encoding"] = small, "gzip"
    return Response(content, status, fields)


@cache
def _small(content: bytes) -> bytes:
    return gzip.compress(content, 6, mtime=0)


class Guard:
    """Refuses requests that no page of this app sends; passes everything else to `app`."""

    def __init__(self, app: ASGIApp, scripts: Sequence[str] = ()) -> None:
        self._app = app
        self._headers = headers(scripts)
        self._has_metrics = os.environ.get(METRICS) == "1"
        self._host_config = url_util.make_url_path(
            config.get_option("server.baseUrlPath"), "_stcore/host-config"
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or websocket (ASGI)."""
        if scope["type"] == "websocket":
            asked = Headers(scope=scope)
            if not is_own(asked.get("origin"), asked.get("host")):
                await receive()  # its `websocket.connect`
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
                return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._headers)
        path = scope["path"]
        if _CLOSED.search(path) or (_METRICS.search(path) and not self._has_metrics):
            await exchange.answer(404, "text/plain", b"Not found")
        elif _EMBED.search(scope.get("query_string", b"")):  # Streamlit's own spelling is "true"
            query = _EMBED.sub(rb"\1embed=true", scope["query_string"]).decode("latin-1")
            await exchange.answer(307, "text/plain", b"", location=f"?{query}")
        elif path == self._host_config:
            await exchange.answer(200, "application/json", json.dumps(OWN_PAGE).encode())
        else:
            await self._app(scope, exchange.receive, exchange.send)


class _Exchange:
    """A request and its response, to which our headers are added."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, further: dict[str, str]) -> None:
        self._receive, self._send, self._further = receive, send, further
        asked = Headers(scope=scope)
        has_body = asked.get("content-length", "0") != "0" or "transfer-encoding" in asked
        # A client that expects "100 Continue" sends no body once it is refused.
        self._is_read = not has_body or "expect" in asked

    async def receive(self) -> Message:
        """The next part of the request."""
        message = await self._receive()
        self._is_read = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response, once the request has been read."""
        if message["type"] == "http.response.start":
            await self._drain()
            answered = MutableHeaders(scope=message)
            for name, value in self._further.items():
                answered[name] = value
        await self._send(message)

    async def answer(self, status: int, kind: str, content: bytes, **more: str) -> None:
        """Send the whole response at once."""
        headers = {"content-type": kind, "cache-control": "no-cache", **more}
        await Response(content, status, headers)({"type": "http"}, self.receive, self.send)

    async def _drain(self) -> None:
        """Read the rest of the request: a connection that is closed earlier loses the response, and
        a proxy closes it when the response is complete."""
        left = MOST_DRAINED
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while not self._is_read and left > 0:
                    left -= len((await self.receive()).get("body", b""))
