"""How much of the project a sentence enters on its way to the screen.

    python -m benchmarks.entered

A new sentence is typed on Heads. Counted are the project's files and functions that run, and the
calls that are open, from the page to the first attention and to the picture of the heads.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import torch
from streamlit.testing.v1 import AppTest

ROOT = f"{Path(__file__).parents[1]}/"
ATTENTION = "models/attention.py:Attention.forward"
PICTURE = "explorer/components/heads_view.py:pack_heads_view"


def heads() -> None:
    """The page Heads, without the menu."""
    from explorer.pages import PAGES
    from explorer.shell import LINKS, show
    from explorer.ui import session

    session.start(LINKS)
    show(next(page for page in PAGES if page.name == "heads"))


def place_of(frame: FrameType) -> str | None:
    """File and function of a frame, if it is the project's."""
    code = frame.f_code
    file = code.co_filename.removeprefix(ROOT)
    is_own = file.startswith(("explorer/", "models/"))
    return f"{file}:{code.co_qualname}" if is_own else None


def open_calls(frame: FrameType | None) -> Iterator[str]:
    """The project's calls that are open, the innermost first."""
    while frame is not None:
        if (place := place_of(frame)) is not None:
            yield place
        frame = frame.f_back


def main() -> None:
    """Print the counts."""
    torch.set_num_threads(1)
    functions: set[str] = set()
    depths: dict[str, int] = {}
    is_counting = False

    def note(frame: FrameType, event: str, _: object) -> None:
        place = place_of(frame) if is_counting and event == "call" else None
        if place is not None:
            functions.add(place)
            if place in (ATTENTION, PICTURE):
                depths.setdefault(place, len([*open_calls(frame)]))

    threading.setprofile(note)
    at = AppTest.from_function(heads, default_timeout=120)
    at.query_params["text"] = "She reads a book every morning."
    at.run().run()
    is_counting = True
    at.text_area(key="sidebar.text").set_value("The old man saw two birds in the garden.").run()
    assert not at.exception, at.exception
    files = {place.partition(":")[0] for place in functions}
    print(f"{len(files)} files, {len(functions)} functions")
    print(f"calls to attention: {depths[ATTENTION]}, to the picture: {depths[PICTURE]}")


if __name__ == "__main__":
    main()
