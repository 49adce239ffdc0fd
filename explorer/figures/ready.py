"""A figure that `st.plotly_chart` accepts without validation.

Streamlit lets Plotly validate each property of a dict, which takes 5 to 20 ms, but not an instance
of Plotly's own class. The page tests validate each figure instead.
"""

from functools import cache
from typing import Any

from _plotly_utils.utils import convert_to_base64
from plotly.basedatatypes import BaseFigure
from plotly.graph_objects import Figure as CheckedFigure

from explorer.figures.frame import Figure


class ReadyFigure(BaseFigure):  # type: ignore[misc]  # Plotly has no types
    """A figure without validation; Streamlit calls only its `to_dict`."""

    def __init__(self, figure: Figure) -> None:
        self.__dict__["_figure"] = figure

    def to_dict(self) -> dict[str, Any]:
        """The figure with Plotly's default template; arrays become base64."""
        figure = _copied(self.__dict__["_figure"])
        convert_to_base64(figure)
        figure["layout"].setdefault("template", _template())  # hundreds of entries, no array
        spec: dict[str, Any] = figure
        return spec


def _copied(value: Any) -> Any:
    """A copy with new containers; arrays and strings are shared."""
    if isinstance(value, dict):
        return {key: _copied(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(member) for member in value]
    return value


@cache
def _template() -> dict[str, Any]:
    template: dict[str, Any] = CheckedFigure().to_dict()["layout"].get("template", {})
    return template
