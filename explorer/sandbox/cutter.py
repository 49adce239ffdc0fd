"""The process that loads an untrusted file with the `tokenizers` library and tokenizes texts.

A regular expression, a chain of replacements or a long list of tokens in such a file may take any
time and memory. Run by `apart`: lines of JSON in, lines of JSON out; `tokenizing` is the caller.
"""

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tokenizers

from explorer.sandbox.bounds import allow, bounded
from models.marks import flags_of, library_of

ROOM = 768_000_000
"""Memory limit in bytes: the largest vocabularies in use, of 262,144, take some 400 MB."""
MOST_TOKENS, MOST_ADDED = 300_000, 20_000
"""Maximum number of tokens, and of added tokens: the app reads their list while others wait."""
ANY = 2**32 - 1
"""A token id outside any vocabulary."""


def read(path: Path) -> tokenizers.Tokenizer:
    """The library's tokenizer of a `tokenizer.json` or an `.spm` file. Raises Exception."""
    if path.suffix == ".spm":
        from models.foreign.sentencepieces import read_unigram  # with torch: two seconds

        return read_unigram(path)
    return library_of(path.read_text(encoding="utf-8"))


def tables(library: tokenizers.Tokenizer) -> dict[str, Any]:
    """The data that the app stores of a tokenizer: its tokens, and the kinds of its parts.

    Raises ValueError for more than MOST_TOKENS or MOST_ADDED.
    """
    added = library.get_added_tokens_decoder()
    if len(added) > MOST_ADDED:
        raise ValueError(f"it has more than {MOST_ADDED:,} added tokens")
    if library.get_vocab_size() > MOST_TOKENS:
        raise ValueError(f"it has more than {MOST_TOKENS:,} tokens")
    vocab = library.get_vocab()
    parts = json.loads(library.to_str())
    kinds = {
        name: "ByteLevel" if "ByteLevel" in json.dumps(parts.get(name)) else ""
        for name in ("normalizer", "pre_tokenizer")
    }
    lists = ("vocab", "merges")
    model = {name: value for name, value in parts["model"].items() if name not in lists}
    named = {token: piece for piece, token in vocab.items()}
    return {
        "vocab": vocab,
        # If tokens share an id, the library names one of them.
        "named": [(i, name) for i in named if (name := library.id_to_token(i)) != named[i]],
        "special": [token for token, entry in added.items() if entry.special],
        "added": list(added),
        "parts": {**kinds, "model": model, "flags": flags_of(parts)},
        "around": [around(library, texts) for texts in (1, 2)],
        "normalizes": library.normalizer is not None,
    }


def around(library: tokenizers.Tokenizer, texts: int = 1) -> dict[str, Any]:
    """The post-processor's output for ANY, a token outside any vocabulary, once or as a pair of
    `texts`; its error if it fails.

    Empty if there is no post-processor.
    """
    if library.post_processor is None:
        return {}
    text = tokenizers.Tokenizer(tokenizers.models.WordLevel({"text": ANY}, unk_token="text"))
    encodings = [text.encode("text") for _ in range(texts)]

    def processed() -> dict[str, Any]:
        output = library.post_processor.process(*encodings)
        return {"ids": output.ids, "type_ids": output.type_ids}

    return _said(processed)


def answered(library: tokenizers.Tokenizer, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens of a text, a text after the normalizer, or the text of ids."""
    if "text" in asked:
        library.encode_special_tokens = asked["special_is_text"]
        encoding = library.encode(asked["text"], add_special_tokens=asked["marked"])
        return {"ids": encoding.ids, "tokens": encoding.tokens, "offsets": encoding.offsets}
    if "normal" in asked:
        return {"text": library.normalizer.normalize_str(asked["normal"])}
    return {"text": library.decode(asked["ids"], skip_special_tokens=True)}


def _said(reply: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A reply, or its error: the library raises bare exceptions, and its panics are no Exception
    subclasses."""
    try:
        return reply()
    except MemoryError:  # this process ends
        raise
    except BaseException as error:
        return {"error": f"{error}"[:500]}


def main() -> None:
    """Answer line by line, the first about the file, each within its own `seconds`."""
    request = json.loads(sys.stdin.readline())
    path, libraries = Path(request["file"]), list[tokenizers.Tokenizer]()
    if path.suffix == ".spm":
        import models.foreign.sentencepieces  # noqa: F401  (so its memory does not count in ROOM)
    bounded(ROOM)
    allow(request["seconds"])

    def opened() -> dict[str, Any]:
        libraries.append(read(path))
        return tables(libraries[0])

    print(json.dumps(_said(opened)), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        allow(asked["seconds"])
        print(json.dumps(_said(partial(answered, libraries[0], asked))), flush=True)


if __name__ == "__main__":
    main()
