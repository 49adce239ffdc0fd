"""The state of drawing one part of a page."""

from dataclasses import dataclass, field
from typing import Any

from explorer.exhibits import block as b
from explorer.exhibits.view import View


@dataclass
class Sheet:
    """One part of a page while it is drawn: its blocks, for the formulas, code, numbers and exports
    below them."""

    view: View
    page: str
    small: list[b.Small] = field(default_factory=list)
    has_picture: bool = False
    blocks: dict[str, list[b.Block]] = field(default_factory=dict)
    problems: set[tuple[str, str]] = field(default_factory=set)
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def drawn(self) -> list[b.Block]:
        """All blocks in page order, including those inside groups."""
        return [block for blocks in self.blocks.values() for block in blocks]
