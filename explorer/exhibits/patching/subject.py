"""The user's changes to the model, and what is missing without an LM head."""

from explorer.exhibits import Exhibit, View, block as b


def show(answer: None, view: View) -> b.Blocks:
    """Both."""
    yield b.Changes("patching.reset")
    if not view.trace.config.lm_head:
        yield b.Hint(view.t("patching.no_logits"))


EXHIBIT = Exhibit(None, show)
