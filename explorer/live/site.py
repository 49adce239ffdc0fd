"""Write a folder of static files in which a model runs in the visitor's browser."""

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from explorer import text
from explorer.analysis.mask_tests.certify import FINDINGS
from explorer.analysis.start.flow import Flow, Lane, flow
from explorer.components.standalone import sheet_of, views_script
from explorer.components.start import Heads, Moment, Thread, pack_start
from explorer.figures.theme import FONT
from explorer.library import LoadedModel
from explorer.live import tokens, weights
from explorer.numbers import root
from explorer.runs.generation import generate, longest
from explorer.runs.inputs import given_tokens
from explorer.runs.trace import trace
from explorer.scripts import link
from models.pictures import picture_of
from models.pictures.faces import FONTS, file_of
from models.pictures.patches import Picture
from models.strategies import Greedy
from models.training.home import asset, data as data_folder

FOLDER = data_folder("explorer.live")
VIEWS: tuple[str, ...] = ("heads_view", "start")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
"""Nothing comes from elsewhere, and no inline script runs. CSP level 3."""
MOST_EXAMPLES = 6
MOST_NEW = 24
"""Maximum tokens of a continuation; the same as in `flow.js`."""
TESTED = tuple(name for name in FINDINGS if name not in ("padding_batch", "hooks", "positions"))
"""The properties that `mask_tests.js` tests."""
CELL = (
    *("title", "query", "key", "reading_similarity"),
    *("reading_scale", "reading_blocked", "reading_softmax"),
)
"""The words of `cell.js`, from the page that explains a cell."""


@dataclass(frozen=True)
class ExportFiles:
    """The files of an export, and their size in bytes."""

    files: tuple[Path, ...]
    n_bytes: int


def write_live(
    loaded: LoadedModel,
    folder: Path,
    precision: weights.Precision = "int8",
    origins: Sequence[str] = (),
) -> ExportFiles:
    """Write the page of a model into `folder`, created if missing.

    In a frame, it exchanges messages with pages of `origins` only. If there are none, it tells a
    page of another origin its height, but not what is typed.
    Raises InputProblem `live_unsupported` with what the browser's engine lacks, `live_no_output`,
    `live_too_large`; OSError if a file cannot be written; ValueError if an origin is none.
    """
    for entry in origins:
        if not re.fullmatch(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?", entry):
            raise ValueError(f"an origin is like https://example.org, not {entry!r}")
    config, tokenizer = weights.described(loaded), tokens.described(loaded.tokenizer)
    tensors = weights.tensors_of(loaded.model, precision)
    parts = list(weights.scripts(tensors))
    examples = [
        entry for group in text.examples(loaded.name, like=loaded.like).values() for entry in group
    ]
    live = {
        "config": config,
        "tokenizer": tokenizer,
        "tensors": tensors.listed,
        "tied": tensors.tied,
        "parts": len(parts),
        "origins": list(origins),
        "sentence": examples[0],
        "examples": examples[:MOST_EXAMPLES],
        "first": weights.in_characters(_first(loaded, examples[0])),
        "masks": ["trained", *(["causal"] if config["stacks"][-1]["causal"] else []), "alone"],
        "count": loaded.n_parameters,
        "divisor": root(loaded.config.divisor),
        "words": {lang: _words(loaded, precision, lang) for lang in text.LANGUAGES},
    }
    views = VIEWS
    if config["picture"]:
        live |= _pictures(config["picture"], examples[:MOST_EXAMPLES])
        views = (*VIEWS, "picture")
    script = views_script(views) + link(FOLDER, "page.js").replace(
        "export default", "const $live =", 1
    )
    style = (FOLDER / "page.css").read_text(encoding="utf-8").replace("FONT", FONT)
    files = {
        "index.html": _page(loaded),
        "style.css": sheet_of(views) + style,
        "model.js": weights.as_script("headlightLive", live),
        "frame.js": (FOLDER / "frame.js").read_text(encoding="utf-8"),
        "headlight.js": script + "\n$live(views, window.headlightLive);\n",
        **{f"weights-{at}.js": part for at, part in enumerate(parts)},
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content.encode())
    paths = tuple(folder / name for name in files)
    return ExportFiles(paths, sum(path.stat().st_size for path in paths))


def _page(loaded: LoadedModel) -> str:
    """The page itself, with no text but its title: the script adds the rest."""
    title = escape(text.model_name(loaded.name, lang="en"))
    icon = b64encode(asset("icon.svg").read_bytes()).decode()
    refused = " ".join(escape(text.t("live.no_script", lang=lang)) for lang in text.LANGUAGES)
    page = (FOLDER / "page.html").read_text(encoding="utf-8")
    filled = page.replace("POLICY", POLICY).replace("ICON", icon).replace("NO_SCRIPT", refused)
    return filled.replace("TITLE", title)  # last: it may be anything


def _pictures(picture: Picture, examples: Sequence[str]) -> dict[str, Any]:
    """The examples as pictures, and the fonts that draw other words."""
    fonts = {"latin": file_of("a", "sans"), "chinese": file_of("我", "sans")}
    drawn = {example: picture_of(example, picture).tobytes() for example in examples}
    return {
        "pictures": {example: weights.in_characters(grey) for example, grey in drawn.items()},
        "fonts": {
            name: weights.in_characters((FONTS / file).read_bytes()) for name, file in fonts.items()
        },
    }


def _words(loaded: LoadedModel, precision: weights.Precision, lang: str) -> dict[str, Any]:
    """The words of the page in one language."""

    def family(table: str) -> dict[str, str]:
        return text.family(table, *(["filling"] if loaded.config.fills else []), lang=lang)

    count = text.in_units(loaded.n_parameters, lang=lang)
    words = family("live")
    about = text.t("live.about", precision, lang=lang)
    cell, stages, place = map(family, ("score", "score.stages", "place"))
    return {
        "itself": text.t("languages", lang, lang=lang),
        "name": text.model_name(loaded.name, lang=lang),
        "live": {**words, "about": about, "ready": words["ready"].replace("{count}", count)},
        "start": family("components.start"),
        "heads": family("components.heads_view"),
        "picture": family("components.picture"),
        "kinds": family("start.kinds"),
        "masks": family("start.masks"),
        "block": family("start")["block"],
        "streams": family("streams"),
        "sites": family("kinds"),
        "lead": " ".join(text.t(key, lang=lang) for key in ("start.lead", "start.try")),
        "cell": {name: cell[name] for name in CELL}
        | {name: stages[name] for name in ("similarity", "scale", "softmax")}
        | {"quoted": place["quoted"]},
        **{
            name: place[name]
            for name in ("unknown", "dropped", "invisible", "folded", "unfinished")
        },
        "tests": {name: text.t("certify", name, "title", lang=lang) for name in TESTED},
    }


def _first(loaded: LoadedModel, sentence: str) -> bytes:
    """The picture of one sentence, shown until the weights have arrived."""
    continues, most = loaded.continues, MOST_NEW if loaded.continues else weights.MOST
    if loaded.config.reads_source:
        most = min(most, longest(loaded, given_tokens(loaded, sentence)))
    generation = generate(loaded, sentence, Greedy(), most)
    picture = flow(loaded, trace(loaded, sentence), generation)
    words = text.family("components.start", lang="en")
    return pack_start(
        [_thread(picture, lane) for lane in picture.lanes],
        [
            Moment(step.thread, step.tokens, step.chances, step.chosen, step.text)
            for step in picture.steps
        ],
        masks=(),
        mask="trained",
        diff=(),
        door="",
        opened=None,
        links={},
        about="",
        effect="",
        said=picture.steps[-1].text,
        prompt=loaded.tokenizer.decode(generation.given) if continues else "",
        words=dict.fromkeys(words, ""),
    )


def _thread(journey: Flow, lane: Lane) -> Thread:
    """A sequence of the picture; its titles depend on the language and are added by the page."""
    sites = [
        (
            "",
            [
                Heads(
                    "",
                    attention.site.role,
                    attention.pattern,
                    attention.allowed,
                    attention.steps,
                    attention.allowed_then,
                )
                for attention in block
            ],
        )
        for block in lane.blocks
    ]
    count = journey.given if lane is journey.lanes[-1] else len(lane.tokens)
    stream = lane.stack.stream
    return Thread(stream, "", lane.tokens, count, lane.embedded, lane.waves, lane.turns, sites)
