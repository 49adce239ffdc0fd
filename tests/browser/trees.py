"""An app whose fragment draws another tree of elements after each press, as `lines` names them."""

import time
from collections.abc import Iterator
from random import Random

import streamlit as st

N_TREES = 40


def lines(number: int) -> Iterator[tuple[int, str, str]]:
    """The depth, kind and label of each element; some equal the tree before."""
    random = Random(number)
    yield 0, "text", f"tree {number}"
    for at in range(random.randrange(3, 12)):
        kind = random.choice(("text", "text", "box", "button", "slow", "fold"))
        depth = random.randrange(3)
        yield depth, kind, f"{kind} {at} {random.choice(('same', 'same', number))}"


def draw() -> None:
    part()
    st.markdown("below")


@st.fragment
def part() -> None:
    number = st.session_state.setdefault("number", 0)
    st.button("next", on_click=lambda: st.session_state.update(number=number + 1))
    st.toggle("refused", key="refused", on_change=lambda: st.session_state.update(refused=False))
    open_at = [st.container()]
    for depth, kind, label in lines(number):
        del open_at[depth + 1 :]
        with open_at[-1]:
            if kind == "box":
                open_at.append(st.container())
            elif kind == "fold":
                open_at.append(st.expander(label, expanded=True))
                open_at[-1].markdown("inside")  # an empty one is not shown
            elif kind == "button":
                st.button(label, key=label)
            else:
                if kind == "slow" and number % 5 == 0:
                    with st.spinner("wait"):
                        time.sleep(0.7)
                st.markdown(label)


if __name__ == "__main__":
    draw()
else:
    from streamlit.starlette import App

    from explorer.patches import patch

    patch()
    app = App(__file__)
