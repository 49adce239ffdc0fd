"""A page of its own in the menu entry Attention, and a part of the page Masks."""

PAGES = {"entropy": "attention"}
PARTS = {"masks": {"entropy": ("entropy.rows",)}}
