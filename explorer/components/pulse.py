"""A timer that reruns a fragment after some seconds, for as long as the fragment draws it.

`st.fragment(run_every=…)` stops only with a run of the whole page, which would discard text that is
typed but not yet sent.
"""

from explorer.components.mount import sent, view
from explorer.components.payload import pack


def pulse(key: str, seconds: float) -> None:
    """Rerun the surrounding fragment once after so many seconds."""
    import streamlit as st

    turn = st.session_state[f"{key}.turn"] = st.session_state.get(f"{key}.turn", 0) + 1
    data = pack({"turn": turn, "seconds": seconds})
    view("pulse")(key=key, data=data, on_due_change=lambda: None)


def is_due(key: str) -> bool:
    """Whether the pulse with this key started this run. Call it before the pulse is drawn again."""
    return sent(key, "due") is not None
