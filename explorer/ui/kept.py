"""Results kept by hand, for experiments that tell their progress while they run.

Streamlit's own caches forbid a cached function to draw on what stands outside of it, so a progress
bar of the page cannot be moved from inside of one.
"""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class Kept(Generic[Found]):
    """At most `most` results by what they came from, for all sessions; the oldest goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[Hashable, Found] = {}
        self._turn = threading.Lock()

    def get(
        self,
        key: Hashable,
        make: Callable[[], Found],
        worth_keeping: Callable[[Found], bool] = lambda found: True,
    ) -> Found:
        """What is kept under `key`, else what `make()` gives, kept where it is worth it.

        Two sessions that ask at once may both make it; neither waits for the other.
        """
        found = self._found.get(key)
        if found is None:
            found = make()
            if worth_keeping(found):
                with self._turn:
                    while len(self._found) >= self._most:
                        del self._found[next(iter(self._found))]
                    self._found[key] = found
        return found

    def forget(self, key: Hashable) -> None:
        """Make it anew when it is next asked for."""
        with self._turn:
            self._found.pop(key, None)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._found
