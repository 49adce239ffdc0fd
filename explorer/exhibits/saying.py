"""Tokens, places, axes and changes of a view as text in the user's language."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.exhibits import View
from explorer.exhibits.block import escape
from explorer.exhibits.reasons import BLOCKERS
from explorer.exhibits.view import is_translator
from explorer.exports.picture import axes_of
from explorer.figures.matrix import Axes
from explorer.figures.theme import is_special, isolated
from explorer.glosses import gloss_of
from explorer.library import split_step
from explorer.numbers import fixed, percent
from explorer.problems import InputProblem, Value
from explorer.runs import edits
from explorer.runs.labelled import Labelled, labelled
from explorer.runs.sentences import clean_text, dropped, folds_blanks
from explorer.runs.trace import Trace
from explorer.text import has, model_name, refusal, shorten, t
from models.foreign.tokens import PAIR
from models.hooks import AttentionSite
from models.refusals import Refusal

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def quoted(view: View, token: str, position: str = "") -> str:
    """A token in quotation marks with its `position`, and with its gloss, as Markdown."""
    gloss = gloss_of(token, view.lang)
    words = view.t("place.quoted", token=escape(token)) + position
    return view.t("place.glossed", token=words, gloss=gloss) if gloss else words


def placement(view: View) -> str:
    """The place of the norms in the open model's blocks, as Markdown."""
    config = view.loaded.config
    words = [escape(view.t("swaps.options.placement", config.norm_placement))]
    for name in ("out_norms", "parallel"):
        if getattr(config, name):
            words.append(view.t("training.fields", name))
    return " · ".join(words)


def quoted_at(view: View, tokens: Sequence[str], index: int) -> str:
    """A token in quotation marks; with its position as subscript if it occurs twice."""
    position = str(index).translate(SUBSCRIPTS) if tokens.count(tokens[index]) > 1 else ""
    return quoted(view, tokens[index], position)


def blocker_words(view: View, names: NDArray[np.str_]) -> list[list[str]]:
    """The names of blockers in the user's language, cell by cell."""
    words = np.full(names.shape, "", dtype=object)
    for name in filter(None, BLOCKERS):
        words[names == name] = view.t("blockers", name)
    rows: list[list[str]] = words.tolist()
    return rows


def site_axes(
    view: View,
    site: AttentionSite | None = None,
    trace: Trace | None = None,
    tokens: tuple[Sequence[str], Sequence[str]] | None = None,
) -> Axes:
    """Queries and keys of a site, by default the view's, or other `tokens`."""
    trace, site = trace or view.trace, site or view.site
    labels = tokens or (trace.query_tokens(site.name), trace.key_tokens(site.name))
    own = "" if trace.src_tokens else "picture" if view.loaded.config.picture else "text"
    return axes_of(labels, (site.query_stream, site.key_stream), view.lang, own)


def axis_title(view: View, role: str, stream: str) -> str:
    """An axis title such as "query · target", in the user's language."""
    return view.t("streams", role, stream=view.stream(stream))


def head_name(view: View, place: tuple[int, int]) -> str:
    """The name of a head (layer, head), in words."""
    return view.t("place.of_head", layer=place[0] + 1, head=place[1] + 1)


def head_columns(view: View, places: Sequence[tuple[int, int]]) -> dict[str, list[object]]:
    """The columns of heads (layer, head) in a table of numbers."""
    layers: list[object] = [layer + 1 for layer, _ in places]
    return {view.t("place.layer"): layers, view.t("place.head"): [head + 1 for _, head in places]}


def model_title(view: View, name: str) -> str:
    """A model's name, with the training step of a snapshot."""
    base, step = split_step(name)
    words = model_name(base, lang=view.lang)
    if step is None:
        return words
    moment = view.t("sidebar.moment_step", step=step)
    return view.t("heads.versus.snapshot", model=words, moment=moment)


def trained(view: View) -> str:
    """For a twin trained with wrong masks: which masks it runs with here; else ""."""
    name, _ = split_step(view.loaded.name)
    if not has("trained", name, lang=view.lang):
        return ""
    changed = any(edits.about_masks(edit) for edit in view.trace.edits)
    return f"{view.t('trained', name)} {view.t('trained.changed' if changed else 'trained.right')}"


def name_edit(view: View, edit: edits.Edit) -> str:
    """The name of an edit, as Markdown."""
    match edit:
        case edits.MaskSwitch(part, on):
            state = "edits.switch_on" if on else "edits.switch_off"
            return view.t(state, part=view.t("edits.rules", part))
        case edits.MaskSize(part, size):
            return view.t("edits.sized", part=view.t("edits.rules", part), size=size)
        case edits.HeadOff(name, head):
            site = view.trace.site(name)
            return view.t(
                "edits.head_off",
                kind=view.t("kinds", site.role),
                layer=site.layer + 1,
                head=head + 1,
            )
        case edits.KeyHidden(stream, key):
            return view.t("edits.hidden", token=escape(view.trace.str_tokens(stream)[key]))
        case edits.CellEdit(_, _, query, key, is_open):
            state = "edits.cell_open" if is_open else "edits.cell_shut"
            return view.t(state, query=query, key=key)


def in_a_row(sentences: Iterable[str]) -> str:
    """Join sentences; no space after Chinese full stops and colons."""
    return " ".join(sentences).replace("。 ", "。").replace("： ", "：")


def left_out_words(view: View, weights: np.ndarray) -> str:
    """How much of the weight is left out as sinks, given the part of each head's, or that none is;
    no heads are given of a long text."""
    having = weights[weights > 0]
    if not having.size:
        return view.t("sinks.none" if weights.size else "sinks.long")
    share = percent(float(having.mean()))
    return view.t("sinks.left_out", share=share, count=having.size, total=weights.size)


def marked_words(words: Sequence[tuple[str, str]]) -> str:
    """Tokens of a comparison as Markdown: removed ones struck out, new ones highlighted."""
    parts = []
    for index, (token, status) in enumerate(words):
        inside = token.startswith("·")
        shown = escape(token[1:] if inside else token, whole=False)
        apart = token[:1].isascii() and token[:1] not in ",.;:!?)"
        blank = " " if index and not inside and apart else ""
        if status == "gone":
            shown = f":gray[~~{shown}~~]"
        elif status == "new":
            shown = f":orange-background[**{shown}**]"
        parts.append(blank + shown)
    return isolated("".join(parts))


SENTENCE_END = re.compile(r"(?<=[.!?]) +|(?<=[。！？])(?![”」）])")
"""Between two sentences."""


def unbroken(words: str) -> str:
    """The words with percent signs and powers of ten on the line of their number."""
    return words.replace(" %", "\u00a0%").replace(" · 10", "\u00a0·\u00a010")


def reading_notes(view: View, text: str, unknown: Sequence[str]) -> str:
    """How the model reads a text other than as typed, in words; "" if it does not. `unknown` are
    the parts that its vocabulary lacks."""
    loaded = view.loaded
    reader, mark = loaded.tokenizer.of("src"), loaded.marks.of("src").unknown
    token, notes = "" if mark is None else escape(reader.piece(mark)), []
    if (cleaned := clean_text(text)) != text:
        names = " ".join(f"U+{ord(character):04X}" for character in dropped(text)[:MOST_CHARACTERS])
        notes.append(view.t("place.invisible", characters=names))
    if loaded.config.picture is None and folds_blanks(reader.encoded, cleaned):
        notes.append(view.t("place.folded"))
    if loaded.reads_pairs and PAIR in cleaned:
        notes.append(view.t("place.paired", pair=PAIR))
    if unknown:
        lost = [*filter(reader.drops, unknown)]
        kept = [character for character in unknown if character not in lost]
        for key, some in (("place.unknown", kept), ("place.dropped", lost)):
            characters = " ".join(map(escape, some[:MOST_CHARACTERS]))
            notes += [view.t(key, token=token, characters=characters)] if some else []
    if text == view.text and loaded.config.picture is not None:
        notes.append(_doubted(view))
    elif text == view.text and not view.edits:
        notes.append(guess_note(view, _written(view)))
    return " · ".join(filter(None, notes))


MOST_LABELS, MOST_CHARACTERS = 12, 20
GUESS = 0.15
"""Probability below which a chosen token is a guess."""
DOUBT = 0.8
"""Probability below which a letter read from a picture is doubtful."""


def _doubted(view: View) -> str:
    """The doubtful letters that a model read from its picture, each with its probability, in
    words; "" if there are none."""
    letters = ", ".join(
        f"“{escape(label.removeprefix('·'))}” {percent(chance)}"
        for label, chance in _written(view)
        if chance < DOUBT
    )
    return view.t("place.doubted", letters=letters, limit=percent(DOUBT)) if letters else ""


def _written(view: View) -> list[tuple[str, float]]:
    """The tokens that the model wrote and their probabilities; none for a given output."""
    trace = view.trace
    if view.target or not trace.config.lm_head:
        return []
    written = trace.tgt_tokens[1 : int(trace.tgt_valid.sum())]
    logits = trace.logits[: len(written)].astype(np.float64)
    chances = np.exp(logits - np.logaddexp.reduce(logits, -1, keepdims=True))
    labels = trace.tgt_str_tokens[1:]
    return list(zip(labels, chances[range(len(written)), written].tolist(), strict=False))


def guess_note(view: View, written: Iterable[tuple[str, float]]) -> str:
    """That a translator guesses, if a token of its output has a small probability, and what helps;
    "" otherwise. A text that is continued has no single right token."""
    words = [(chance, label) for label, chance in written if not is_special(label)]
    if not is_translator(view.loaded) or min(words, default=(1, ""))[0] >= GUESS:
        return ""
    chance, label = min(words)
    return view.t("place.guess", token=quoted(view, label), chance=percent(chance))


def labels_said(view: View) -> list[str]:
    """What a classification head says of the text, now and without the user's changes, as Markdown;
    empty for a model without one."""
    if view.loaded.classifier is None:
        return []
    labels = labelled(view.loaded, view.trace)
    key = "place.labels_tokens" if labels.head.pool == "each" else "place.labels"
    sentences = [view.t(key, labels=_labels(view, labels))]
    if view.edits:
        before = labelled(view.loaded, view.before())
        sentences.append(view.t("place.labels_before", labels=_labels(view, before)))
    return sentences


def _labels(view: View, answer: Labelled) -> str:
    """The most probable labels of a text; of tokens, those that differ from the most frequent."""
    names, rows = [escape(label) for label in answer.head.labels], answer.chances
    number = fixed if answer.head.gives == "value" else percent
    if answer.head.pool != "each":
        order = np.argsort(-rows[0], kind="stable")[:MOST_LABELS]
        phrases = [f"{names[at]} {number(float(rows[0, at]))}" for at in order]
        return " · ".join([f"**{phrases[0]}**", *phrases[1:]])
    best, real = rows.argmax(1), np.flatnonzero(view.trace.tgt_valid)
    usual = int(np.bincount(best[real]).argmax())
    others = [at for at in real if best[at] != usual]
    phrases = [
        f"{quoted_at(view, view.trace.tgt_str_tokens, int(at))} **{names[best[at]]}** "
        f"{number(float(rows[at, best[at]]))}"
        for at in others[:MOST_LABELS]
    ]
    phrases += ["…"] if len(others) > MOST_LABELS else []
    return " · ".join([*phrases, view.t("place.labels_usual", label=names[usual])])


def message(problem: InputProblem, lang: str) -> str:
    """The text of an input problem, as Markdown; user input in it is escaped."""
    values = {name: _shown(value, lang) for name, value in problem.values.items()}
    if problem.key == "bad_number":
        # The names of settings have words of their own.
        values["name"] = t("settings", str(problem.values["name"]), lang=lang)
    return t("problems", problem.key, lang=lang, **values)


def _shown(value: Value, lang: str) -> str:
    if isinstance(value, Refusal):
        return escape(refusal(value, lang=lang))
    return escape(shorten(value, 120)) if isinstance(value, str) else f"{value:,}"


MOST_NAME = 40
"""Characters of the sentence used in a file name."""


def file_name(view: View, name: str) -> str:
    """The name of an exported file: model, page and the sentence's first words.

    Letters of all scripts are allowed; characters unsafe in file names become hyphens.
    """
    words = re.sub(r"\W+", "-", view.trace.text).strip("-_")[:MOST_NAME].rstrip("-_")
    model = re.sub(r"\W+", "-", view.loaded.name).strip("-")
    return "-".join(filter(None, ("headlight", model, name, words)))
