"""A page with one view of 72 heads and nothing else, for `benchmarks.interaction`.

Run by Streamlit; `?tokens=24` sets the length of the synthetic sentence.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # Streamlit puts this folder there instead

import numpy as np
import streamlit as st
from starlette.middleware import Middleware
from streamlit.starlette import App

from explorer.components.heads_payload import HeadsSelection, whole_grid
from explorer.components.heads_view import heads_view
from explorer.figures.matrix import Axis
from explorer.serving import FromMemory
from explorer.text import family


def show() -> None:
    """The page."""
    tokens = int(st.query_params.get("tokens", "24"))
    scores = 2 * np.random.default_rng(0).normal(size=(6, 12, tokens, tokens))
    patterns = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    row = tuple(f"token{index}" for index in range(tokens))
    st.set_page_config(layout="wide")
    thumbnails, cells_of = whole_grid(patterns.astype(np.float32), np.True_, whole=False)
    heads_view(
        thumbnails,
        (Axis(row, "query"), Axis(row, "key")),
        cells_of=cells_of,
        selection=HeadsSelection((0, 0)),
        key="heads",
        words=family("components.heads_view", lang="en"),
    )


if __name__ == "__main__":
    show()
else:  # the server reads this file once
    app = App(__file__, middleware=[Middleware(FromMemory)])
