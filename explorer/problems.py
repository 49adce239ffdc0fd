"""Everything that the explorer refuses, by key: the words for each are in the text files.

The exception carries the key and values (limits, lengths, names); the caller that shows it looks up
`problems.<key>` in the user's language and fills them in.
"""

from models.refusals import Refusal

Value = str | int | float | Refusal
"""The values of a problem: numbers and names; if a model does not open, the library's reason."""

PROBLEMS: dict[str, frozenset[str]] = {
    key: frozenset(values.split())
    for key, values in {
        # a typed sentence
        "empty": "",
        "whitespace_only": "",
        "nothing_left": "",  # only control characters, or nothing that yields a token
        "no_tokens": "reason",  # the tokenizer fails on it
        "too_long_chars": "limit length",
        "too_many_tokens": "limit length",
        "too_many_bytes": "limit length size bound",  # tokens, and megabytes
        "nothing_aligned": "",  # no position of two texts at which both can be asked
        "too_few_pairs": "",  # of sentences and their translations
        "one_token": "",  # for an experiment that needs several
        # a typed translation, or the forced prefix of one
        "target_too_long": "limit length",
        "unknown_forced": "characters",
        "nothing_to_fill": "",  # a text without mask tokens, for a model that fills masks in
        "writes_nothing": "",  # a model that does not generate token by token
        "no_logits": "",  # a model without an LM head
        # a batch of sentences, one per line
        "no_lines": "limit",
        "too_many_lines": "limit length",
        # settings, from a widget or from a link
        "bad_number": "name value low high",
        "bad_edit": "edit",
        # models
        "unknown_model": "name available",
        "broken_model": "name reason",
        "other_input": "name",  # a model of texts next to one of pictures
        # an uploaded file
        "file_type": "name allowed",
        "file_too_large": "name limit size",  # bytes
        "file_encoding": "name allowed",
        "file_empty": "name",
        "file_table": "name reason",
        "too_many_sentences": "name limit",
        # an atlas
        "file_changed": "name",  # while it was being read
        "nothing_measured": "name too_long unreadable",  # lines
        "no_room": "folder done total",  # shards
        "shards_elsewhere": "folder count",
        "atlas_there": "folder",
        "broken_atlas": "name reason",
        # an uploaded model
        "upload_too_large": "name limit size",  # bytes
        "upload_no_zip": "name",
        "upload_encrypted": "name",
        "upload_bomb": "name limit",  # bytes unpacked
        "upload_nothing": "name",
        "upload_pickle": "name",
        "upload_adapter": "name base",
        "upload_file": "name file limit",  # bytes of one file in it
        "upload_tensors": "name limit",  # bytes of the list of tensors
        "upload_heavy": "name",
        "heavy_tokenizer": "limit megabytes",  # seconds
        "template_heavy": "",
        "template_fails": "reason",  # of a chat template
        "upload_gone": "name",  # of another session, or deleted
        # a picture
        "picture_bytes": "name limit size",
        "picture_kind": "name found",  # the format
        "picture_moves": "name",
        "picture_large": "name size limit",  # width and height, and millions of pixels
        "picture_small": "name size limit",  # pixels of a side
        "picture_colours": "name found",  # the mode
        "picture_damaged": "name",
        "picture_blank": "name",
        "picture_heavy": "name",
        # a training
        "training_model": "reason",
        "training_large": "count limit",
        "training_pairs": "count limit",
        "training_heavy": "limit",
        "training_no_room": "",
        "training_off": "variable",
        "training_waiting": "limit",
        # a page that needs no server
        "live_unsupported": "part",
        "live_no_output": "",
        "live_too_large": "limit",  # megabytes
    }.items()
}
"""Each key, with the names of the values that its words may use."""


class InputProblem(ValueError):  # noqa: N818 (the user's problem, not an error of ours)
    """Invalid input from the user; `key` says what is wrong, `values` are the details.

    Raises KeyError for a key or values that `PROBLEMS` does not list.
    """

    def __init__(self, key: str, **values: Value) -> None:
        if PROBLEMS[key] != values.keys():
            raise KeyError(f"{key} takes the values {sorted(PROBLEMS[key])}, not {sorted(values)}")
        super().__init__(f"{key}: {values}" if values else key)
        self.key = key
        self.values = values

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.key, self.values))


def _rebuild(key: str, values: dict[str, Value]) -> InputProblem:
    return InputProblem(key, **values)
