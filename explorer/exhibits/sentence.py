"""The input sentence and the model's output."""

from explorer.exhibits import Exhibit, View, block as b


def show(answer: None, view: View) -> b.Blocks:
    """One line."""
    yield b.SentenceLine()


EXHIBIT = Exhibit(None, show)
