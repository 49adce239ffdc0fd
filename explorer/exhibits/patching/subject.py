"""The user's changes to the model, and what is missing without an LM head."""

from collections.abc import Iterator

from explorer.exhibits import block as b
from explorer.exhibits.exhibit import Exhibit
from explorer.exhibits.view import View


def show(answer: None, view: View) -> Iterator[b.Block]:
    """Both."""
    yield b.Changes("patching.reset")
    if not view.trace.config.lm_head:
        yield b.Hint(view.t("patching.no_logits"))


EXHIBIT = Exhibit(None, show)
