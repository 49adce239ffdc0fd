"""Export sentences as a folder of static pages, one per sentence: no server, no network."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from explorer.analysis.certificate.certify import Certificate, examine_text
from explorer.components.standalone import (
    Beside,
    Block,
    Heading,
    Paragraph,
    data_script,
    page,
    plotly_script,
    views_script,
)
from explorer.exports.report import report_lines
from explorer.library import LoadedModel
from explorer.notebook.more import film, mask, positions
from explorer.notebook.picture import Picture
from explorer.notebook.show import attention
from explorer.problems import InputProblem
from explorer.runs.edits import Edit, MaskSwitch
from explorer.runs.trace import Trace, trace
from explorer.text import LANGUAGES, model_name, problem as worded, t

PLOTLY = "plotly.min.js"
VIEWS = "headlight.js"
MOST_BYTES = 1_000_000
"""Size limit for the pages of one sentence in all languages together."""

GRAINS = (1, 2, 4, 8, 16, 32, 64)
"""Rounding steps for the weights of heads that are closed at first, tried until the pages fit."""

PADS = 2
MOST_NAME = 40


def write_site(
    loaded: LoadedModel,
    sentences: Sequence[str],
    folder: Path,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Write the pages into `folder` (created if missing) and return the paths of sentence pages.

    For each sentence, in every language of the app: all heads, the masks as they are and with one
    rule switched off, the decoding animation, and the mask tests. To stay within `MOST_BYTES`,
    weights are rounded as much as necessary, and the pages give the rounding. Written once: the
    positions, an index of all pages, and the shared scripts.

    `tell` is called with each written file, and with the reason if a sentence cannot be used and is
    skipped. Raises InputProblem if no sentence can be used, OSError if the files cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept: list[tuple[str, str]] = []
    refused: InputProblem | None = None
    for number, sentence in enumerate(sentences, 1):
        name = f"{number:02d}-{_slug(sentence)}".rstrip("-")
        try:
            traced = trace(loaded, sentence)
            tested = examine_text(loaded, sentence).certificate()
        except InputProblem as problem:
            refused = problem
            tell(f"{sentence[:60]}: {worded(problem.key, problem.values, lang='en')}")
            continue
        for file, made in _files(loaded, traced, tested, name).items():
            (folder / file).write_text(made, encoding="utf-8")
        kept.append((name, sentence))
        tell(str(folder / f"{name}.*.html"))
    if not kept:
        raise refused or InputProblem("file_empty", name="--sentences")
    _write_shared(loaded, kept, folder)
    return [folder / f"{name}.{lang}.html" for name, _ in kept for lang in LANGUAGES]


def _files(loaded: LoadedModel, traced: Trace, tested: Certificate, name: str) -> dict[str, str]:
    """The pages of one sentence and the script with their matrices, by file name."""
    blocks = {lang: list(_blocks(loaded, traced, tested, lang)) for lang in LANGUAGES}
    for grain in GRAINS:
        beside = Beside(VIEWS, f"{name}.js")
        files = {
            f"{name}.{lang}.html": page(
                f"{traced.text} · {model_name(loaded.name, lang=lang)}",
                [
                    block
                    for part in blocks[lang]
                    for block in (part.blocks(grain) if isinstance(part, Picture) else [part])
                ],
                lang,
                _links(name, lang),
                beside=beside,
            )
            for lang in LANGUAGES
        }
        files[beside.data] = data_script(beside)
        if sum(len(made.encode()) for made in files.values()) <= MOST_BYTES:
            break
    return files


def _slug(sentence: str) -> str:
    """The first words of a sentence for a file name; letters of all scripts are allowed."""
    return re.sub(r"\W+", "-", sentence).strip("-_")[:MOST_NAME].rstrip("-_")


def _links(name: str, lang: str) -> list[tuple[str, str]]:
    """Links to the index, to the positions and to the page in the other language."""
    other = next(each for each in LANGUAGES if each != lang)
    pages = {"index": "site.all", "positions": "positions.title"}
    links = [(t(key, lang=lang), f"{to}.{lang}.html") for to, key in pages.items() if to != name]
    return [*links, (t(f"languages.{other}", lang=other), f"{name}.{other}.html")]


def _blocks(
    loaded: LoadedModel, traced: Trace, tested: Certificate, lang: str
) -> Iterator[Block | Picture]:
    """Everything about one sentence in one language."""
    yield Heading(t("heads.title", lang=lang))
    yield Paragraph(_plain(t("heads.lead", lang=lang)))
    yield attention(traced, lang=lang)
    yield Heading(t("masks.title", lang=lang))
    yield Paragraph(_plain(t("masks.lead", lang=lang)))
    yield mask(loaded, traced.text, pads=PADS, lang=lang)
    part = "causal" if loaded.config.is_causal else "pad_keys"
    off: tuple[Edit, ...] = (MaskSwitch(part, False),)  # type: ignore[arg-type]
    changed = trace(loaded, traced.text, None, off, PADS)
    yield Paragraph(t("site.switched_off", lang=lang, rule=t(f"edits.{part}", lang=lang)), True)
    if changed.output:
        yield Paragraph(changed.output)
    yield mask(changed, lang=lang)
    if traced.config.generates:
        yield Heading(t("decoding.title", lang=lang))
        try:
            yield film(loaded, traced.text, lang=lang)
        except ValueError as full:  # the text fills the context
            yield Paragraph(str(full))
    yield Heading(t("certificate.title", lang=lang))
    yield Paragraph("\n".join(report_lines(tested, loaded.name, traced.text, lang)))


def _plain(words: str) -> str:
    return words.replace("**", "")


def _write_shared(loaded: LoadedModel, kept: Sequence[tuple[str, str]], folder: Path) -> None:
    """Write the index and the positions in every language, and the shared scripts."""
    files = {VIEWS: views_script(["film", "heads_view", "mask_matrix"])}
    for lang in LANGUAGES:
        shown, title = positions(loaded, lang=lang), t("positions.title", lang=lang)
        links = _links("positions", lang)
        files[f"positions.{lang}.html"] = page(title, shown.blocks(), lang, links, PLOTLY)
        if shown.numpy():  # else no chart is drawn
            files[PLOTLY] = plotly_script()
        title = t("site.title", lang=lang, model=model_name(loaded.name, lang=lang))
        links = [(sentence, f"{name}.{lang}.html") for name, sentence in kept]
        index = page(title, [], lang, [*links, *_links("index", lang)])
        files[f"index.{lang}.html"] = index.replace(" · <a", "<br><a")
    files["index.html"] = files["index.en.html"]
    for file, made in files.items():
        (folder / file).write_text(made, encoding="utf-8")
