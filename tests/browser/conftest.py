"""One running app and one Chromium for all browser tests; a new visitor for each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Playwright,
    Route,
    expect,
    sync_playwright,
)

from explorer.text import t
from tests.browser.app import PATIENCE, launching, running_app

DARK = "rgb(14, 17, 23)"  # theme.dark.backgroundColor in .streamlit/config.toml
expect.set_options(timeout=PATIENCE)


def word(key: str, **values: object) -> str:
    return t(key, lang="en", **values)


def asked(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


@dataclass
class Visitor:
    """A browser tab on the app that remembers what went wrong and where it called."""

    page: Page
    address: str
    console: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def open(self, place: str = "", **state: str) -> "Visitor":
        """Go to a page of the app, with its state in the link, and wait until it is drawn."""
        self.page.goto(f"{self.address}/{place}?{urlencode(state)}")
        self.settle()
        return self

    def settle(self) -> None:
        """Wait until Streamlit has drawn something and runs no script any more."""
        self.page.locator("[data-testid=stMarkdown]:visible").first.wait_for()
        self.page.wait_for_function(
            "() => document.querySelector('[data-testid=stApp]')"
            "?.getAttribute('data-test-script-state') === 'notRunning'"
            # What a run has not drawn again yet is shown faded.
            " && !document.querySelector('[data-stale=true]')"
            # Before the first picture has moved into the app, a key may go to what is replaced.
            " && !document.getElementById('hl-first')"
        )

    @contextmanager
    def before_the_app(self, place: str = "?") -> Iterator[Locator]:
        """Go to a page whose app comes only after the block: its first picture."""
        held: list[Route] | None = []

        def hold(route: Route) -> None:
            if held is None:
                route.continue_()
            else:
                held.append(route)

        self.page.route("**/_stcore/health", hold)
        self.page.goto(f"{self.address}/{place}", wait_until="commit")
        first = self.page.locator("#hl-first")
        first.locator(".hl canvas").first.wait_for()
        yield first
        requests, held = held, None
        for request in requests:
            request.continue_()

    def darken(self) -> None:
        """Switch to the dark theme, as the browser's setting asks, and wait until it is drawn."""
        self.page.emulate_media(color_scheme="dark")
        self.page.wait_for_function(
            "dark => getComputedStyle(document.querySelector('[data-testid=stApp]'))"
            ".backgroundColor === dark",
            arg=DARK,
        )
        light = "some(({ style }) => style.fill === 'rgb(107, 112, 128)')"  # of charts
        self.page.wait_for_function(f"() => ![...document.querySelectorAll('.xtick text')].{light}")
        self.settle()

    def fits(self, width: int) -> None:
        """Wait until the page is this many pixels wide at most and does not scroll sideways.

        A chart takes the width of a window that has become narrow some frames after the window.
        """
        self.page.wait_for_function(
            """width => {
                const main = document.querySelector('[data-testid=stMain]');
                return main.clientWidth <= width && main.scrollWidth <= main.clientWidth;
            }""",
            arg=width,
        )

    def labels_stand_clear(self) -> None:
        """Wait until no two labels below or above the columns of a chart overlap, line by line."""
        self.page.wait_for_function(
            """() => ![...document.querySelectorAll('.xaxislayer-above')].some(axis => {
                const words = '.xtick :is(tspan.line, text:not(:has(tspan.line)))'
                const lines = [...axis.querySelectorAll(words)].filter(at => at.textContent.trim())
                    .map(line => line.getBoundingClientRect())
                const shared = (one, other, from, to) =>
                    Math.min(one[to], other[to]) - Math.max(one[from], other[from])
                return lines.some((one, i) => lines.slice(i + 1).some(other =>
                    shared(one, other, 'left', 'right') > 1
                    && shared(one, other, 'top', 'bottom') > one.height / 2))
            })"""
        )

    def at(self, place: str) -> Locator:
        """A control of a view by its place: head5, query5-2, play, candidate1 …"""
        return self.page.locator(f"[data-at={place}]")

    def shows(self, words: str) -> None:
        """Wait until these words are to be seen."""
        self.page.get_by_text(words).first.wait_for()


@pytest.fixture(scope="session")
def app() -> Iterator[str]:
    with running_app() as address:
        yield address


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(playwright) -> Iterator[Browser]:
    """A Chromium for tests that need a context of their own; `visitor` is cheaper."""
    launched = playwright.chromium.launch(**launching())
    launched.on("context", lambda context: context.set_default_timeout(PATIENCE))
    yield launched
    launched.close()


@pytest.fixture(scope="session")
def profile(playwright, tmp_path_factory) -> Iterator[BrowserContext]:
    """A Chromium with a profile on disk, which keeps the scripts that it has compiled.

    A page then costs 5 s of a core and not 9, most of it for Streamlit's own scripts.
    """
    context = playwright.chromium.launch_persistent_context(
        tmp_path_factory.mktemp("profile"),
        **launching(),
        viewport={"width": 1440, "height": 1000},
        locale="en-GB",
    )
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def offline(browser) -> Iterator[Page]:
    """A page without a network. Afterwards: no error, and no request but for its own files."""
    context = browser.new_context(offline=True, locale="en-GB")
    page, errors, asked = context.new_page(), [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("request", lambda request: asked.append(request.url.partition(":")[0]))
    yield page
    context.close()
    assert errors == []
    assert set(asked) <= {"file", "data", "blob"}


@pytest.fixture
def visitor(app, profile) -> Iterator[Visitor]:
    """A visitor without a past. Afterwards: no console error, no request to another machine."""
    page = profile.new_page()
    visitor = Visitor(page, app)

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            visitor.console.append(f"{message.text} {message.location.get('url', '')}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: visitor.console.append(str(error)))
    page.on("request", lambda request: visitor.hosts.add(urlsplit(request.url).hostname or ""))
    page.on("websocket", lambda socket: visitor.hosts.add(urlsplit(socket.url).hostname or ""))
    yield visitor
    page.evaluate("() => localStorage.clear()")
    page.close()
    profile.clear_cookies()
    assert visitor.console == []
    # "" is what data: and blob: addresses have, which never leave the page.
    assert visitor.hosts <= {"127.0.0.1", ""}
