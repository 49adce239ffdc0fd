"""From a page to the model: few steps besides the engine's, so that a stack trace is readable."""

import sys
from pathlib import Path

import pytest
from torch.nn.modules.module import register_module_forward_pre_hook

import explorer
from explorer.engine import asking, cache, caching
from explorer.engine.cache import Run
from explorer.engine.caching import Store
from explorer.exhibits.exhibit import exhibit_of
from explorer.exhibits.heads.opened import ablation
from explorer.exhibits.links import State
from explorer.exhibits.view import build
from explorer.runs.edits import MaskSwitch

MOST = 4
EXPLORER = Path(explorer.__file__).parent
MODEL, TEXT = "twin-right", "Tom loves Mary."
OFF = (MaskSwitch("causal", False),)
RUN, OTHER = Run(MODEL, TEXT), Run(MODEL, "I see.")


def answered(name: str, state: State) -> object:
    """What is computed for an exhibit, as the app asks for it."""
    request = exhibit_of(name).request(build(state, dark=False))
    assert request is not None
    return asking.ask(request)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: cache.trace(OTHER),
        lambda: ablation(Run(MODEL, "I see.", pads=1)),
        lambda: answered("heads.measured", State(model=MODEL, text=TEXT)),
        lambda: answered("cell.chain", State(model=MODEL, text=TEXT)),
        lambda: answered("masks.batch", State(model=MODEL, text=TEXT, beside="I see.")),
        lambda: answered("masks.forced", State(model=MODEL, text=TEXT, edits=OFF)),
        lambda: answered("clinic.planted", State(model=MODEL, text=TEXT)),
        lambda: answered("positions.length", State(model=MODEL, text=TEXT)),
        lambda: answered("decoding.one_pass", State(model=MODEL, text=TEXT)),
    ],
)
def test_at_most_four_steps_lie_between_the_engine_and_the_model(ask, monkeypatch) -> None:
    monkeypatch.setattr(caching, "STORE", Store(10**9))
    ablation(RUN)  # what a page has asked for before it asks for more
    cache.trace(Run(MODEL, "I see.", pads=1))
    cache.trace(Run(MODEL, TEXT, edits=OFF))
    deepest: list[list[str]] = [[]]

    def count(module: object, args: object) -> None:
        frames, names = sys._getframe(1), []
        while frames is not None:
            name = frames.f_code.co_qualname
            own = not name.endswith("comp>")  # Python 3.12 draws no frame for a comprehension
            file = Path(frames.f_code.co_filename)
            if own and EXPLORER in file.parents and EXPLORER / "engine" not in file.parents:
                names.append(name)
            frames = frames.f_back
        deepest[0] = max(deepest[0], names, key=len)

    handle = register_module_forward_pre_hook(count)
    try:
        ask()
    finally:
        handle.remove()
    assert 0 < len(deepest[0]) <= MOST, deepest[0]
