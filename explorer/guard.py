"""What is refused before Streamlit sees it: websockets opened by pages of other sites.

Streamlit compares a foreign `Origin` with the addresses of this machine, for which it asks a
service on the internet, on the event loop: one such request held every session up. Here an origin
is compared with the request's own `Host` and the configured names only.
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config, net_util

LOCAL = frozenset({"localhost", "127.0.0.1", "0.0.0.0"})
"""Hosts that Streamlit trusts on any port: pages of the user's own machine."""
POLICY_VIOLATION = 1008
"""RFC 6455, section 7.4.1."""


def stay_inside() -> None:
    """Keep Streamlit from asking a service on the internet for this machine's address.

    Its welcome asks too, before this module is imported: .streamlit/config.toml switches that off.
    """
    net_util.get_external_ip = lambda: None


def is_own(origin: str | None, host: str | None) -> bool:
    """Whether a request with this `Origin` comes from a page of this app, or from no page.

    Own are the `Host` of the request, this machine, `browser.serverAddress` if it is set, and the
    names in `server.corsAllowedOrigins`; all are own if `server.enableCORS` is off.
    """
    if origin is None or not config.get_option("server.enableCORS"):
        return True
    try:
        asked = urlsplit(origin)
        name = asked.hostname
    except ValueError:
        return False
    if not name:  # "null": a page in a sandbox, or a file
        return False
    if asked.netloc == host or name in LOCAL:
        return True
    known = [str(each) for each in config.get_option("server.corsAllowedOrigins")]
    if config.is_manually_set("browser.serverAddress"):
        known.append(str(config.get_option("browser.serverAddress")))
    return name in map(_hostname, known)


def _hostname(address: str) -> str | None:
    """The host of an address with or without a scheme."""
    return urlsplit(address if "//" in address else f"//{address}").hostname


class Guard:
    """Refuses what no page of this app sends; everything else goes on to `app`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request or websocket, as ASGI passes it."""
        if scope["type"] == "websocket":
            headers = Headers(scope=scope)
            if not is_own(headers.get("origin"), headers.get("host")):
                await receive()  # its `websocket.connect`
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
                return
        await self._app(scope, receive, send)
