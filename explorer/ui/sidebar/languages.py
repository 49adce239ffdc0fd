"""Source and target language of a multilingual translator."""

from functools import partial

import streamlit as st

from explorer import text
from explorer.library import LoadedModel, in_languages
from explorer.ui import session

_CODES = """
    afr:af als:sq amh:am arb:ar azj:az ben:bn bos:bs bul:bg cat:ca ces:cs dan:da deu:de ell:el
    eng:en est:et fin:fi fra:fr glg:gl guj:gu hau:ha heb:he hin:hi hrv:hr hun:hu ibo:ig ind:id
    isl:is ita:it jpn:ja kat:ka kaz:kk khk:mn khm:km kor:ko lit:lt lvs:lv mal:ml mar:mr mkd:mk
    mya:my nld:nl nob:no npi:ne pbt:ps pes:fa pol:pl por:pt ron:ro rus:ru sin:si slk:sk slv:sl
    som:so spa:es srp:sr swe:sv swh:sw tam:ta tel:te tgl:tl tha:th tur:tr ukr:uk urd:ur uzn:uz
    vie:vi xho:xh yor:yo zho:zh zsm:ms zul:zu
"""
SHORT = dict(pair.split(":") for pair in _CODES.split())
"""The codes of ISO 639-1 for those of ISO 639-3 that NLLB has."""


def language_name(code: str, lang: str) -> str:
    """A code with its name, such as "Chinese (zho_Hans)", in the user's language if known."""
    short = code.strip("_").partition("_")[0]
    short = SHORT.get(short, short)
    if not text.has("translated", short, lang=lang):
        return code
    name = text.t("translated", short, lang=lang)
    return text.t("translated.named", lang=lang, name=name, code=code)


def pick_languages(loaded: LoadedModel) -> None:
    """Two menus. A change opens the same model for another language pair."""
    lang = session.state().lang
    names = partial(language_name, lang=lang)
    codes = sorted(loaded.languages, key=names)
    for key, code in zip(("source", "target"), loaded.pair, strict=True):
        st.session_state[f"sidebar.{key}_language"] = code
        st.selectbox(
            text.t("translated", key, lang=lang),
            codes,
            format_func=names,
            key=f"sidebar.{key}_language",
            help=text.t("translated.help", lang=lang),
            on_change=_picked,
            args=(loaded.name,),
        )


def _picked(model: str) -> None:
    source, target = (st.session_state[f"sidebar.{key}_language"] for key in ("source", "target"))
    session.change(model=in_languages(model, source, target))
