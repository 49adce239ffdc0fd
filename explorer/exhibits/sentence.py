"""The input sentence and the model's output."""

from explorer.exhibits import Exhibit, View
from explorer.exhibits.block import Blocks, SentenceLine


def show(answer: None, view: View) -> Blocks:
    """One line."""
    yield SentenceLine()


EXHIBIT = Exhibit(None, show)
