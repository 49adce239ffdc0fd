"""Settings of tokenizer_config.json with which a tokenizer.json was not written.

This library reads tokenizer.json alone. Most classes of `transformers` build the tokenizer anew
from both files, and give other tokens if one contradicts the other.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from models.foreign.json_files import read_json
from models.refusals import Refusal

MAKING = (
    'python -c "import transformers as t; '
    "t.AutoTokenizer.from_pretrained('.').save_pretrained('.')\""
)
_AS_WRITTEN = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes that read tokenizer.json alone."""
_NULL_IS_FALSE = ("Albert", "Camembert", "XLMRoberta")
"""Classes for which a null flag is false; for others it is their default."""


def require_one_tokenizer(
    folder: Path,
    id_of: Callable[[str], int | None],
    flags: Mapping[str, bool | None],
    marks: Mapping[str, str],
) -> None:
    """Raise Refusal if a folder's tokenizer_config.json contradicts its tokenizer.json.

    `id_of` gives the id of a token, None if that file lacks it. `flags` are the settings that the
    file shows (`models.marks.flags_of`). `marks` are the special tokens that it puts around a text,
    and the unknown one of a unigram model, by the settings that name them.
    """
    path = folder / "tokenizer_config.json"
    settings = read_json(path) if path.is_file() else None
    if not isinstance(settings, dict) or settings.get("tokenizer_class") in _AS_WRITTEN:
        return
    kind = str(settings.get("tokenizer_class"))
    null_is_false = kind.startswith(_NULL_IS_FALSE)
    if kind.startswith("Albert"):  # others ignore these, if the file does neither
        flags = {"do_lower_case": False, "keep_accents": True} | dict(flags)
    for name, written in flags.items():
        value = settings.get(name, written)
        if value is None and name != "strip_accents":
            value = False if null_is_false else written
        if value != written:
            value, other = repr(value), repr(written)
            raise Refusal("tokenizer_setting", name=name, value=value, other=other, command=MAKING)
    for name, mark in marks.items():
        value = settings.get(name, "")
        text = value.get("content") if isinstance(value, dict) else value
        ignored = text == "" or (text is None and name != "unk_token")
        if not ignored and id_of(str(text)) is None:
            value, other = repr(text), repr(mark)
            raise Refusal("tokenizer_setting", name=name, value=value, other=other, command=MAKING)
