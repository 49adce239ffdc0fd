"""The input sentence and the model's output."""

from collections.abc import Iterator

from explorer.exhibits.block import Block, SentenceLine
from explorer.exhibits.exhibit import Exhibit
from explorer.exhibits.view import View


def show(answer: None, view: View) -> Iterator[Block]:
    """One line."""
    yield SentenceLine()


EXHIBIT = Exhibit(None, show)
