"""Views that Plotly cannot draw fast enough: canvas and DOM components that respond to clicks.

A view takes arrays and labels and returns the clicked address. Each consists of a pure function
that packs the payload (`pack_…`), a thin Streamlit call, and JS and CSS files of the same name.
"""

from explorer.components.frame import frame
from explorer.components.heads_payload import (
    MAX_PINNED,
    SCALES,
    Cells,
    HeadGrid,
    HeadsSelection,
    Measure,
    PictureAxis,
    Scale,
    grid,
)
from explorer.components.heads_view import heads_view, sent_cell, sent_selection
from explorer.components.matrices import Panel, Stroke, pack_matrices, stroke_of
from explorer.components.mount import index_of, inside
from explorer.components.picture import picture, sent_drawing, sent_patch
from explorer.components.pulse import is_due, pulse

__all__ = [
    "MAX_PINNED",
    "SCALES",
    "Cells",
    "HeadGrid",
    "HeadsSelection",
    "Measure",
    "Panel",
    "PictureAxis",
    "Scale",
    "Stroke",
    "frame",
    "grid",
    "heads_view",
    "index_of",
    "inside",
    "is_due",
    "pack_matrices",
    "picture",
    "pulse",
    "sent_cell",
    "sent_drawing",
    "sent_patch",
    "sent_selection",
    "stroke_of",
]
