"""Export and share, on every page: the link, the reading, and the page as one file."""

import socket
from html import escape
from urllib.parse import urlencode, urlsplit

import segno
import streamlit as st

from explorer.exhibits.links import State
from explorer.exhibits.view import View
from explorer.guard import embedding
from explorer.text import model_name, t
from explorer.ui import session


def page_title(view: View, name: str) -> str:
    """The title of an exported page: the page's title and the model's."""
    return f"{view.t(name, 'title')} · {model_name(view.loaded.name, lang=view.lang)}"


def show_link(state: State, key: str = "take.qr") -> None:
    """The address of this page with all current choices, and its QR code on request.

    If the address names this computer only, the one in its network is shown, provided that the
    server listens to the network; otherwise how to start one that does. `key` is the switch's.
    """
    st.caption(t("take.link", lang=state.lang))
    here = urlsplit(st.context.url or "")
    if here.hostname in ("localhost", "127.0.0.1", "::1"):
        listens = st.get_option("server.address") not in ("localhost", "127.0.0.1", "::1")
        outside = network_address() if listens else None
        words = "take.local_only" if outside is None else "take.in_network"
        st.warning(t(words, lang=state.lang), icon=":material/wifi:")
        if outside is not None:
            here = here._replace(netloc=f"{outside}:{here.port}" if here.port else outside)
    link = address(state, here.geturl())
    st.code(link, language=None, wrap_lines=True)
    if embedding():
        st.caption(t("take.embed", lang=state.lang))
        style = 'title="Headlight" style="width: 100%; height: 40rem; border: 0"'
        line = f'<iframe src="{escape(link)}&amp;embed=1" {style}></iframe>'
        st.code(line, language=None, wrap_lines=True)
    if st.toggle(t("take.qr", lang=state.lang), key=key):
        _qr_code(link, state.lang)


def address(state: State, page: str | None = None) -> str:
    """The address of a page, by default of this one, with these choices."""
    page = st.context.url or "" if page is None else page
    return f"{page}?{urlencode(session.links().write(state))}"


def network_address() -> str | None:
    """This computer's address in its network; None without a network. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation: RFC 5737
        except OSError:
            return None
        host: str = probe.getsockname()[0]
    return None if host.startswith("127.") else host


def _qr_code(address: str, lang: str) -> None:
    try:
        code = segno.make_qr(address, error="l", boost_error=False, mask=0)
    except segno.DataOverflowError:
        st.info(t("take.qr_long", lang=lang), icon=":material/qr_code:")
        return
    st.image(code.svg_inline(scale=4, border=4, dark="#14161d", light="#ffffff"))
