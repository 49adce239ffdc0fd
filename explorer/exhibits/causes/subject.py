"""The text, and the user's changes to the model."""

from explorer.exhibits import Exhibit, View, block as b


def show(answer: None, view: View) -> b.Blocks:
    """Both in a line."""
    yield b.SentenceLine()
    yield b.Changes("causes.reset")


EXHIBIT = Exhibit(None, show)
