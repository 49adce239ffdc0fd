"""Why there is no ablation of every head: nothing was predicted, or it takes long."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.heads.ablation import is_wanted, sizes
from explorer.runs.rerun import written_tokens


def show(answer: None, view: View) -> b.Blocks:
    """The reason, or a button that starts it."""
    if not written_tokens(view.trace):
        silent = not view.trace.config.lm_head
        yield b.Note(view.t("matter.no_logits" if silent else "matter.nothing"))
        return
    heads, count = sizes(view)
    yield b.Prose(view.t("matter.ask", heads=heads, count=count))
    yield b.Button("heads.ablate", view.t("matter.run"), b.choose(ablated=view.run))


EXHIBIT = Exhibit(None, show, open=lambda view: not is_wanted(view))
