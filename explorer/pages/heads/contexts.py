"""Words shared by two sentences: how each context changes their vectors, layer by layer."""

import numpy as np
import streamlit as st

from explorer.analysis.heads.contexts import shared_words
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.numbers import fixed
from explorer.ui import controls
from explorer.ui.parts import pick_stream
from models.positions import POSITIONS


def contexts(view: View, other: View) -> None:
    """The cosine of each shared word's two vectors, from the embedding to the last layer."""
    st.subheader(view.t("contexts.title"), anchor=False)
    found = shared_words(view.trace, other.trace, pick_stream(view, "heads.contexts.stream"))
    if not found:
        st.caption(view.t("contexts.none"))
        return
    farthest = min(found, key=lambda word: word.cosines[-1])
    cosines = np.stack([word.cosines for word in found])
    left, right = st.columns([3, 2], gap="large")
    with left:
        figure = lines(
            np.arange(cosines.shape[1]),
            cosines,
            [f"{word.token} ({word.places[0]}, {word.places[1]})" for word in found],
            x_title=view.t("contexts.layer"),
            y_title=view.t("contexts.cosine"),
            dark=view.dark,
        )
        figure["layout"]["xaxis"]["dtick"] = 1
        controls.chart(figure, "heads.contexts", alt=view.t("contexts.title"))
    with right:
        st.markdown(view.t("contexts.lead"))
        st.markdown(view.t(f"contexts.{POSITIONS[view.loaded.config.positions].acts}"))
        controls.reading(
            "contexts",
            view.t(
                "contexts.reading",
                token=controls.quoted(view, farthest.token),
                cosine=fixed(farthest.cosines[-1]),
                layers=cosines.shape[1] - 1,
            ),
        )
