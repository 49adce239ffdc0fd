"""The text, and the user's changes to the model."""

from collections.abc import Iterator

from explorer.exhibits import block as b
from explorer.exhibits.exhibit import Exhibit
from explorer.exhibits.view import View


def show(answer: None, view: View) -> Iterator[b.Block]:
    """Both in a line."""
    yield b.SentenceLine()
    yield b.Changes("causes.reset")


EXHIBIT = Exhibit(None, show)
