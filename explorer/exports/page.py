"""A self-contained page for download: the text, the output, and pictures of the heads."""

from collections.abc import Sequence
from html import escape

from explorer.components.standalone import Markup, page
from explorer.exports.picture import axes_of
from explorer.figures.matrix import Axes
from explorer.runs.trace import Trace
from explorer.text import t
from models.hooks import AttentionSite


def site_axes(traced: Trace, site: AttentionSite, lang: str) -> Axes:
    """The axes of a site's pattern; without an encoder, the sequence is called "text"."""
    tokens = traced.query_tokens(site.name), traced.key_tokens(site.name)
    streams = (site.query_stream, site.key_stream)
    return axes_of(tokens, streams, lang, "" if traced.src_tokens else "text")


def trace_page(traced: Trace, svgs: Sequence[str], lang: str) -> str:
    """The page of a trace: its sentence, the model's output, and SVGs from `site_svg`."""
    # The hatching has the same id in every SVG; the definitions are equal, so the first is used.
    facts = {"sentence": traced.text, "translation": traced.output}
    rows = "".join(
        f"<dt>{escape(t(f'export.{name}', lang=lang))}</dt><dd>{escape(words)}</dd>"
        for name, words in facts.items()
        if words
    )
    figures = [Markup(f"<figure>\n{svg}</figure>") for svg in svgs]
    title = t("export.title", lang=lang, model=traced.model)
    return page(title, [Markup(f"<dl>{rows}</dl>"), *figures], lang)
