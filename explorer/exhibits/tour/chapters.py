"""The chapter names and the chapter of each page; other pages need nothing else of the course."""

_PAGES: dict[str, tuple[str, ...]] = {
    "attention": ("heads", "score", "alignment", "attribution", "circuits", "atlas"),
    "masks": ("masks", "mask_tests", "cases", "exercises"),
    "positions": ("positions",),
    "blocks": ("blocks", "model", "patching"),
    "writing": ("decoding", "training"),
}
NAMES = tuple(_PAGES)
CHAPTER_OF = {page: chapter for chapter, pages in _PAGES.items() for page in pages}
"""The chapter that links to a page, and to which the page links back."""
