"""Why there is no ablation of every head: nothing was predicted, or it takes long."""

from explorer.exhibits import Exhibit, View
from explorer.exhibits.block import Blocks, Button, Note, Prose, choose
from explorer.exhibits.heads.ablation import is_wanted, sizes
from explorer.runs.rerun import written_tokens


def show(answer: None, view: View) -> Blocks:
    """The reason, or a button that starts it."""
    if not written_tokens(view.trace):
        silent = not view.trace.config.lm_head
        yield Note(view.t("matter.no_logits" if silent else "matter.nothing"))
        return
    heads, count = sizes(view)
    yield Prose(view.t("matter.ask", heads=heads, count=count))
    yield Button("heads.ablate", view.t("matter.run"), choose(ablated=view.run))


EXHIBIT = Exhibit(None, show, open=lambda view: not is_wanted(view))
