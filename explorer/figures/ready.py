"""A figure that `st.plotly_chart` takes as it is.

Streamlit has Plotly check each property of a dict, which takes 5 to 20 ms, and of no instance of
Plotly's own class. The tests of the pages check each figure that they draw.
"""

from functools import cache
from typing import Any

from _plotly_utils.utils import convert_to_base64
from plotly.basedatatypes import BaseFigure
from plotly.graph_objects import Figure as CheckedFigure

from explorer.figures.frame import Figure


class ReadyFigure(BaseFigure):  # type: ignore[misc]  # Plotly has no types
    """A figure whose properties nobody checks; `to_dict` is all that Streamlit asks of it."""

    def __init__(self, figure: Figure) -> None:
        self.__dict__["_figure"] = figure

    def to_dict(self) -> dict[str, Any]:
        """The figure with Plotly's usual template; arrays become base64 of their bytes."""
        figure = _copied(self.__dict__["_figure"])
        figure["layout"].setdefault("template", _template())
        convert_to_base64(figure)
        made: dict[str, Any] = figure
        return made


def _copied(value: Any) -> Any:
    """The same value in containers of its own; arrays and strings are shared."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(each) for each in value]
    return value


@cache
def _template() -> dict[str, Any]:
    made: dict[str, Any] = CheckedFigure().to_dict()["layout"].get("template", {})
    return made
