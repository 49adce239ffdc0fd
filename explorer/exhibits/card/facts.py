"""Facts about the open model from its files, and its author's description."""

from collections.abc import Iterator

from explorer.analysis.card import MOST_CHARS, CardWords, ModelFacts, card_words, facts
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.positions.opening import positions_said
from explorer.library import LoadedModel, split_step


def compute(loaded: LoadedModel, lang: str) -> tuple[ModelFacts, CardWords]:
    """The facts, and the description in the user's language if available, else as it is."""
    return facts(loaded), card_words(loaded.folder, lang)


def show(card: tuple[ModelFacts, CardWords], view: View) -> b.Blocks:
    """A table of properties, then the description."""
    known, written = card
    properties = (*_sizes(view, known), *_design(view), *_files(view, known, written))
    yield b.Title(view.t("card.facts"), large=True)
    rows = [(view.t(f"card.{name}"), value) for name, value in properties]
    yield b.Table((view.t("card.property"), view.t("card.value")), rows, "ll")
    yield from _description(view, written)


def _description(view: View, written: CardWords) -> b.Blocks:
    """The author's text, its language if it is another one, and what is left out."""
    if not written.markdown.strip():
        yield b.Hint(view.t("card.none"), "info")
        return
    if written.lang not in (None, view.lang):
        yield b.Hint(view.t(f"card.only_{written.lang}"), "translate")
    yield b.Document("card", written.markdown, view.t("card.left_out"))
    if written.is_cut:
        yield b.Note(view.t("card.cut", count=f"{MOST_CHARS:,}"))


def _sizes(view: View, facts: ModelFacts) -> Iterator[tuple[str, str]]:
    config = view.loaded.config
    name, step = split_step(view.loaded.name)
    yield "name", f"{_code(name)}"
    if step is not None:
        yield "snapshot", view.t("sidebar.moment_step", step=step)
    yield "kind", view.t(f"card.kinds.{facts.kind}")
    layers = (view.t(f"card.layers_{role}", count=n) for role, n in facts.layers.items())
    yield "layers", " · ".join(layers)
    shared = "heads_shared" if config.kv_heads < config.n_heads else "heads_own"
    heads = {"heads": config.n_heads, "kv_heads": config.kv_heads, "features": config.d_head}
    yield "heads", view.t(f"card.{shared}", **heads)
    yield "width", f"{config.d_model:,}"
    yield "parameters", f"{facts.parameters:,}"
    sizes = [view.t("card.tokens", count=f"{config.vocab_size:,}")]
    for lang, count in facts.written_in.items():
        sizes.append(view.t(f"card.tokens_{lang}", count=f"{count:,}"))
    if config.src_vocab_size:
        sizes.append(view.t("card.tokens_source", count=f"{config.src_vocab_size:,}"))
    if facts.without_piece:
        sizes.append(view.t("card.without_piece", count=f"{facts.without_piece:,}"))
    yield "vocabulary", " · ".join(sizes)


def _design(view: View) -> Iterator[tuple[str, str]]:
    config = view.loaded.config
    limit = f"{config.n_ctx:,}"
    yield "length", view.t("card.tokens", count=limit)
    yield "positions", positions_said(view)
    last = "with_last" if config.final_norm else "without_last"
    placement = view.t(f"swaps.options.placement_{config.norm_placement}")
    norm = view.t(f"designs.norm.{config.norm}")
    yield "norm", " · ".join((norm, escape(placement), view.t(f"card.{last}")))
    ffn = view.t(f"designs.ffn.{config.ffn}")
    many = "" if config.n_experts == 1 else f" · {view.t('card.experts', n=config.n_experts)}"
    yield "ffn", f"{ffn} · {view.t('card.wide', width=f'{config.d_ff:,}')}{many}"
    tied = "output_tied" if config.tie_embeddings else "output_own"
    yield "output", view.t(f"card.{tied}" if config.lm_head else "card.output_none")


def _files(view: View, facts: ModelFacts, written: CardWords) -> Iterator[tuple[str, str]]:
    marks = (
        f"{view.t(f'card.marks.{name}')} {_code(token)}" for name, token in facts.marks.items()
    )
    yield "marks_row", " · ".join(marks) or view.t("card.no_marks")
    size = f"{facts.bytes_stored / 1e6:,.1f}"
    yield "stored", view.t("card.megabytes", size=size, dtypes=", ".join(facts.dtypes))
    if view.loaded.not_shown:
        yield "not_shown", " · ".join(map(_code, view.loaded.not_shown))
    if written.languages:
        yield "languages", escape(" · ".join(written.languages))
    if written.licence:
        yield "licence", escape(written.licence)


def _code(text: str) -> str:
    """A name as inline code; with a backtick in it, as plain text."""
    return escape(text) if "`" in text or "|" in text else f"`{text}`"


EXHIBIT = Exhibit(compute, show)
