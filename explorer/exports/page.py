"""A self-contained page for download: the text, the output, and pictures of the heads."""

from collections.abc import Sequence
from html import escape

from explorer.figures.theme import FONT, LIGHT
from explorer.runs.trace import Trace
from explorer.text import family, t


def picture_words(traced: Trace, lang: str) -> dict[str, str]:
    """The words for `site_svg`; without an encoder, the sequence is called "text", not "target"."""
    words = family("export", lang=lang)
    return words if traced.src_tokens else {**words, "tgt": t("streams.text", lang=lang)}


def trace_page(traced: Trace, svgs: Sequence[str], lang: str) -> str:
    """The page of a trace: its sentence, the model's output, and SVGs from `site_svg`."""
    facts = [(t("export.sentence", lang=lang), traced.text)]
    if traced.output:
        facts.append((t("export.translation", lang=lang), traced.output))
    title = t("export.title", lang=lang, model=traced.model)
    return page_html(svgs, title=title, facts=facts, lang=lang)


def page_html(
    svgs: Sequence[str], *, title: str, facts: Sequence[tuple[str, str]], lang: str
) -> str:
    """One self-contained page: a title, facts (name, value), and SVGs from `site_svg`."""
    # The hatching has the same id in every SVG; the definitions are equal, so the first is used.
    rows = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    figures = "\n".join(f"<figure>\n{svg}</figure>" for svg in svgs)
    return f"""<!doctype html>
<html lang="{escape(lang)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
body {{ margin: 2rem auto; max-width: 110rem; padding: 0 1.5rem; color: {LIGHT.ink};
  background: {LIGHT.paper}; font: 16px/1.5 {FONT}; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; }}
dt {{ color: {LIGHT.muted}; }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
figure {{ margin: 2rem 0; overflow-x: auto; }}
</style>
</head>
<body>
<h1>{escape(title)}</h1>
<dl>
{rows}
</dl>
{figures}
</body>
</html>
"""
