"""A folder of static pages about some sentences: no server, no network, one page a sentence."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from explorer.analysis.certificate.certify import Certificate, examine_text
from explorer.components.standalone import Block, Text, Title, page, plotly_script
from explorer.exports.report import report_lines
from explorer.library import LoadedModel
from explorer.notebook.more import film, mask, positions
from explorer.notebook.show import show
from explorer.problems import InputProblem
from explorer.runs.edits import Edit, MaskSwitch
from explorer.runs.trace import Trace, trace
from explorer.text import LANGUAGES, model_name, t
from explorer.text import problem as worded

PLOTLY = "plotly.min.js"
PADS = 2
MOST_NAME = 40


def write_site(
    loaded: LoadedModel,
    sentences: Sequence[str],
    folder: Path,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Write the pages into `folder` (made where it is missing) and return those of sentences.

    Of each sentence, in every language of the app: all heads, the masks as they are and with a rule
    switched off, the film of what is written, and the mask tests. Once: the positions, and an index
    that links all of them. `tell` hears what was written, and in words which sentence the model
    cannot use; that one is left out. Raises InputProblem where it can use none, OSError where
    nothing can be written.
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
        for lang in LANGUAGES:
            made = page(
                f"{sentence} · {model_name(loaded.name, lang=lang)}",
                list(_blocks(loaded, traced, tested, lang)),
                lang,
                _links(name, lang),
            )
            (folder / f"{name}.{lang}.html").write_text(made, encoding="utf-8")
        kept.append((name, sentence))
        tell(str(folder / f"{name}.*.html"))
    if not kept:
        raise refused or InputProblem("file_empty", name="--sentences")
    _write_shared(loaded, kept, folder)
    return [folder / f"{name}.{lang}.html" for name, _ in kept for lang in LANGUAGES]


def _slug(sentence: str) -> str:
    """The first words of a sentence as part of a file's name; letters of every script stay."""
    return re.sub(r"\W+", "-", sentence).strip("-_")[:MOST_NAME].rstrip("-_")


def _other(lang: str) -> str:
    return next(each for each in LANGUAGES if each != lang)


def _links(name: str, lang: str) -> list[tuple[str, str]]:
    other = _other(lang)
    return [
        (t("site.all", lang=lang), f"index.{lang}.html"),
        (t("positions.title", lang=lang), f"positions.{lang}.html"),
        (t(f"languages.{other}", lang=other), f"{name}.{other}.html"),
    ]


def _blocks(loaded: LoadedModel, traced: Trace, tested: Certificate, lang: str) -> Iterator[Block]:
    """Everything about one sentence in one language."""
    yield Title(t("heads.title", lang=lang))
    yield Text(_plain(t("heads.lead", lang=lang)))
    yield from show(traced, lang=lang).blocks()
    yield Title(t("masks.title", lang=lang))
    yield Text(_plain(t("masks.lead", lang=lang)))
    yield from mask(loaded, traced.text, pads=PADS, lang=lang).blocks()
    part = "causal" if loaded.config.is_causal else "pad_keys"
    off: tuple[Edit, ...] = (MaskSwitch(part, False),)  # type: ignore[arg-type]
    changed = trace(loaded, traced.text, None, off, PADS)
    yield Text(t("site.switched_off", lang=lang, rule=t(f"edits.{part}", lang=lang)), True)
    if changed.output:
        yield Text(changed.output)
    yield from mask(changed, lang=lang).blocks()
    if traced.predicts == "next":
        yield Title(t("decoding.title", lang=lang))
        yield from film(loaded, traced.text, lang=lang).blocks()
    yield Title(t("certificate.title", lang=lang))
    yield Text("\n".join(report_lines(tested, loaded.name, traced.text, lang)))


def _plain(words: str) -> str:
    return words.replace("**", "")


def _write_shared(loaded: LoadedModel, kept: Sequence[tuple[str, str]], folder: Path) -> None:
    """The index and the positions, in every language, and the script of their charts."""
    if positions(loaded).numpy():  # else no chart is drawn
        (folder / PLOTLY).write_text(plotly_script(), encoding="utf-8")
    for lang in LANGUAGES:
        other = _other(lang)
        to_other = t(f"languages.{other}", lang=other)
        title = t("site.title", lang=lang, model=model_name(loaded.name, lang=lang))
        links = [(sentence, f"{name}.{lang}.html") for name, sentence in kept]
        links += [(t("positions.title", lang=lang), f"positions.{lang}.html")]
        index = page(title, [], lang, [*links, (to_other, f"index.{other}.html")])
        (folder / f"index.{lang}.html").write_text(
            index.replace(" · <a", "<br><a"), encoding="utf-8"
        )
        made = page(
            t("positions.title", lang=lang),
            positions(loaded, lang=lang).blocks(),
            lang,
            [
                (t("site.all", lang=lang), f"index.{lang}.html"),
                (to_other, f"positions.{other}.html"),
            ],
            PLOTLY,
        )
        (folder / f"positions.{lang}.html").write_text(made, encoding="utf-8")
    first = (folder / "index.en.html").read_text(encoding="utf-8")
    (folder / "index.html").write_text(first, encoding="utf-8")
