"""Export and share: on every page, the link, the reading, and the page as one file."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlencode

import streamlit as st

from explorer.components.standalone import Text, Title, page, recorded
from explorer.exhibits.links import State
from explorer.exhibits.view import View
from explorer.text import model_name, t
from explorer.ui import session

MOST_NAME = 40
"""Letters of the sentence that a file's name repeats."""


@contextmanager
def shared(view: View, name: str, more: Callable[[], None] | None = None) -> Iterator[None]:
    """A popover above what is drawn inside, with all of it to keep; `more` draws further exports.

    It stands above the pictures and is filled after them. Files are made when somebody asks. The
    address of the page follows last.
    """
    place = st.container(key=f"share-{name}", horizontal=True, horizontal_alignment="right")
    with recorded(file_name(view, name)) as blocks:
        yield
    head = [Text(view.trace.text)] + ([Text(view.trace.output)] if view.trace.output else [])
    said = [block.words for block in blocks if isinstance(block, Text) and block.is_reading]
    with place, st.popover(view.t("take.title"), icon=":material/download:"):
        kept(view, name, said, lambda: page(page_title(view, name), [*head, *blocks], view.lang))
        if any(not isinstance(block, Text | Title) for block in blocks):
            st.caption(view.t("take.png"))
        if more is not None:
            more()
    session.write_due_link()


def page_title(view: View, name: str) -> str:
    """The title of a page that is kept: its own, and the model's."""
    return f"{view.t(f'{name}.title')} · {model_name(view.loaded.name, lang=view.lang)}"


def kept(view: View, name: str, said: Sequence[str], make: Callable[[], str]) -> None:
    """The link, the sentences that say a number, and the page as a file, which `make` makes."""
    show_link(view.state)
    if said:
        st.caption(view.t("take.reading"))
        st.code("\n".join(said), language=None, wrap_lines=True)
    st.caption(view.t("take.page"))
    download(view, name, "html", make, "text/html", key=f"{name}.take.page")


def download(
    view: View,
    name: str,
    ending: str,
    make: Callable[[], str],
    mime: str,
    key: str,
    label: str = "",
) -> None:
    """A button whose file is made when somebody presses it; `label` where the ending says less."""
    st.download_button(
        label or view.t(f"take.{ending}"),
        lambda: make().encode(),
        file_name(view, name, ending),
        mime,
        key=key,
        on_click="ignore",
    )


def show_link(state: State) -> None:
    """The address of this page with everything that was chosen."""
    st.caption(t("take.link", lang=state.lang))
    address = f"{st.context.url or ''}?{urlencode(session.links().write(state))}"
    st.code(address, language=None, wrap_lines=True)


def file_name(view: View, name: str, ending: str = "") -> str:
    """The name of a file to keep: model, page and the sentence's first words.

    Letters of every script stay; what a file system might not take becomes a hyphen.
    """
    words = re.sub(r"\W+", "-", view.trace.text).strip("-_")[:MOST_NAME].rstrip("-_")
    model = re.sub(r"\W+", "-", view.loaded.name).strip("-")
    return "-".join(part for part in ("headlight", model, name, words) if part) + (
        f".{ending}" if ending else ""
    )
