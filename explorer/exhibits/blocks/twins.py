"""Three trained models that differ in norm placement, on the same sentence."""

from explorer.analysis.blocks.residual import StreamNorms, trained_flow
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.blocks.residual import Flows, by_blocks
from explorer.exhibits.exhibit import TEXTS
from explorer.numbers import number
from models.config import NormPlacement

TWINS: dict[NormPlacement, str] = {
    "post": "twin-deep-post",
    "pre": "twin-deep-pre",
    "sublayer": "twin-deep-branch",
}


def compute(shelf: tuple[str, ...], text: str) -> Flows | None:
    """The flow of each listed twin; None if one of them predicts no token.

    Raises InputProblem: their vocabulary and length limits differ from the open model's.
    """
    flows: dict[NormPlacement, StreamNorms] = {}
    for place, name in TWINS.items():
        if name in shelf:
            trace = cache.trace(Run(name, text))
            try:
                flows[place] = trained_flow(cache.open_model(name), trace)
            except ValueError:
                return None
    return flows


def show(flows: Flows | None, view: View) -> b.Blocks:
    """Stream and gradient of each twin, and their losses."""
    if flows is None or flows:
        yield b.Title(view.t("blocks.twins"), large=True)
    if flows is None:
        yield b.Hint(view.t("blocks.twins_silent"))
    if not flows:
        return
    yield b.Prose(view.t("blocks.twins_note"))
    yield by_blocks(view, flows, "twins")
    if len(flows) == len(TWINS):
        words = {
            place: number(float(flow.gradient[0] / flow.gradient[-1]))
            for place, flow in flows.items()
        }
        losses = {f"{place}_loss": f"{float(flow.loss):.2f}" for place, flow in flows.items()}
        yield b.Sentence("twins", view.t("blocks.read_twins", **words, **losses))
    yield b.Code((trained_flow,))


EXHIBIT = Exhibit(compute, show, needs=TEXTS)
