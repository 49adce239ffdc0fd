"""A pulse: lets a fragment run again after some seconds, as long as the fragment asks for it.

`st.fragment(run_every=…)` goes on for as long as the page stands; it ends only with a run of the
whole page, which would take from a visitor what is typed and not yet sent.
"""

from explorer.components.mount import sent, view
from explorer.components.payload import pack

WORDS = ()
"""It shows nothing."""


def pulse(key: str, seconds: float) -> None:
    """Run the fragment around this once more in so many seconds."""
    import streamlit as st

    turn = st.session_state[f"{key}.turn"] = st.session_state.get(f"{key}.turn", 0) + 1
    data = pack({"turn": turn, "seconds": seconds})
    view("pulse")(key=key, data=data, on_due_change=lambda: None)


def is_due(key: str) -> bool:
    """Whether this run was started by the pulse with this key. Ask before it is drawn again."""
    return sent(key, "due") is not None
