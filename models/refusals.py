"""Why a folder, a file or a config cannot be used: by a key, with the English words for it.

An error says its English words as any other does. Whoever speaks another language looks the key up
in words of its own and fills in the same values; one of them may be a refusal itself, where a file
is refused because of what stands in it.
"""

import errno
import json
import string
from collections.abc import Mapping
from typing import Any

REFUSALS: dict[str, str] = {
    # where
    "within": "{file}: {reason}",
    # files and folders
    "missing_file": "{file} is missing",
    "missing_shard": "{file} is missing, which {index} lists",
    "dead_link": "{file} is a link that leads to no file, or back to itself",
    "unreadable": "{path} cannot be read: {reason}",
    "no_rights": "Permission denied",
    "link_circle": "Too many levels of symbolic links",
    "gone": "No such file or directory",
    "json_syntax": "{said}: line {line} column {column} (char {char})",
    "not_json": "{file} is not JSON: {reason}",
    "no_object": "{file} must be one JSON object",
    # weights
    "pickle": "{file} is a pickle, which can run code while it is read, so it is never loaded. If "
    "you trust its source, convert it once in its folder: {command}",
    "no_safetensors": "{file} is not a readable safetensors file; if it was cut short, download "
    "it again: {reason}",
    "no_index": "{file} is not an index of shards: {reason}",
    "leads_away": "{index}: {file} is not the name of a file beside it",
    "lacks_listed": "{file} lacks {tensor}, which {index} says it has",
    "lacks": "{file} lacks {tensor}",
    "lacks_some": "{file} lacks {tensor} ({missing} missing, {unknown} unknown)",
    "has_unknown": "{file} has an unknown {tensor} ({missing} missing, {unknown} unknown)",
    "has_another": "{file} has {tensor}, which this family does not ({count} unknown)",
    "integers": "{file}: {tensor} holds {kind}, not floats: it is quantised",
    "not_finite": "{file}: {tensor} holds NaN or infinity",
    "shape": "{file}: {tensor} is {shape}, the config asks for {asked}",
    "shape_of": "{file}: {tensors} is {shapes}, which does not fit the config: {name} is {asked}",
    "table": "this family's table does not fit its config: {names}",
    "too_few_tensors": "{file} has {count} {count:tensor|tensors}, the config asks for "
    "{layers} {layers:layer|layers}",
    "too_large": "the model needs {needed} GB in {dtype}, {where} has {memory} GB",
    "too_large_whole": "the model needs {needed} GB in {dtype}, {where} has {memory} GB; "
    "--dtype bfloat16 takes {half} GB",
    "this_machine": "this machine",
    "the_gpu": "the GPU",
    "too_many_positions": "{file}: n_ctx is {n_ctx}: its positions need more than {limit} bytes",
    # configs
    "own_code": "{file}: auto_map: the model comes with Python code of its own, which is never run",
    "quantised": "{file}: quantization_config: the weights are quantised; open the original ones",
    "unknown_family": "{file}: model_type is {value}; these can be opened: {known}",
    "config_not_json": "the config is not JSON: {reason}",
    "config_no_object": "the config must be one JSON object",
    "config_fields": "the config has unknown fields: {names}",
    "config_vocab_size": "the config lacks vocab_size",
    "lacks_key": "{name} is missing",
    "bad_size": "{name} is {value}: it must be a whole number from 1 to {most}",
    "more_layers": "{name} is {value}, but only {count} tensors are stored",
    "positive": "{name} is {value}: it must be a number above 0",
    "flag": "{name} is {value}: it must be true or false",
    "token_id": "{name} is {value}: it must be the id of a token",
    "not_exact": "{name} is {value}: only {allowed} can be shown exactly",
    "one_of": "{name} is {value}: it must be one of {allowed}",
    "layer_types": "{name} is {value}: it must say sliding_attention or full_attention for each "
    "layer",
    "scaled_angles": "the angles are scaled as {value}: llama3 and linear are known",
    "text_config": "{name} is {value}: it must be the config of the text model",
    "whole": "{name} is {value}: it must be a whole number of at least 1",
    "number": "{name} is {value}: it must be a finite number",
    "layers": "{name} is {value}: it must be whole numbers of at least 0",
    "scaling": "{name} is {value}: it must be a factor and two rising wavelengths, all above 0",
    "multiple": "{name} is {value}: it must be a multiple of {of}",
    "divides": "{name} is {value}: it must divide {of}",
    "at_most": "{name} is {value}: it must be at most {most}",
    "fraction": "{name} is {value}: it must be in [0, 1)",
    "above": "{name} is {value}: it must be above {least}",
    "no_lm_head": "lm_head is False: only an encoder-only model can do without one",
    "gated_head": "head_net is True: it has no gate, as ffn = {ffn} has",
    "odd_width": "{name} is {value}: {positions} positions need an even one",
    "device": "device is {value}: it must be cpu or cuda",
    "no_gpu": "device is 'cuda', but torch finds no CUDA GPU here",
    # tokenizers
    "no_tokenizer": "{file} is not a usable tokenizer: {reason}",
    "no_tokenizer_file": "{file} is missing. Where transformers is installed, this writes it, "
    "in the model's folder: {command}",
    "tokenizer": "the tokenizer cannot be used: {file}: {reason}",
    "other_tokenizer": "the tokenizer has a token {largest}, but the model only {size} "
    "{size:token|tokens}: it belongs to another model",
    "more_tokens": "the tokenizer has {count} {count:token|tokens}, the model only {size}",
    "other_marks": "the tokenizer's ids of pad, start and end are {found}, the config's {said}",
    "several_around": "the tokenizer puts {before} special {before:token|tokens} before a "
    "text and {behind} behind it; one each can be shown",
    "ids_with_gaps": "its ids are not 0, 1, 2, …",
    "no_sentencepiece": "{file} is not a SentencePiece model: {reason}",
    "not_unigram": "only unigram models are known",
    "ends_early": "it ends too early",
    "wire_type": "a field of wire type {kind}",
    # GGUF
    "no_gguf": "{file} is not a readable GGUF file",
    "broken_gguf": "{file} is not a readable GGUF file: {reason}",
    "no_gguf_package": "{file} needs the package gguf: {command}",
    "gguf_family": "{file}: its architecture is {value}; these can be opened: {known}",
    "gguf_angles": "{file}: scaled angles and experts are not known",
    "gguf_block": "{file}: {tensor}: {reason}",
    "gguf_tokenizer": "its tokenizer is {value}: only gpt2 and llama are known",
    "gguf_words": "its tokenizer cuts words as {value} does: known are {known}",
    "gguf_axes": "a tensor of {count} axes",
    "gguf_string": "a string of {size} bytes is longer than the file",
    "gguf_array": "an array of values of type {kind}",
}
"""The English words of each key, whose placeholders are its values."""


class Numbers(string.Formatter):
    """Fills placeholders; of one with two words, `{count:token|tokens}`, it takes the first where
    the value is 1, as shown."""

    def format_field(self, value: Any, spec: str) -> str:
        one, bar, many = spec.partition("|")
        if not bar:
            return str(super().format_field(value, spec))
        return one if str(value) == "1" else many


class Refusal(ValueError):  # noqa: N818 (of what was given; nothing here has failed)
    """Something cannot be used: `key` says what is wrong with it, `values` say where and how much.

    Another library's error among the values is kept as its own words. Raises KeyError for a key, or
    for values, that `REFUSALS` does not have.
    """

    def __init__(self, key: str, **values: "str | int | float | BaseException") -> None:
        self.key = key
        self.values: Mapping[str, str | int | float | Refusal] = {
            name: _said(value) if isinstance(value, BaseException) else value
            for name, value in values.items()
        }
        super().__init__(Numbers().vformat(REFUSALS[key], (), self.values))

    def alone(self) -> "Refusal":
        """The same without the calls that led to it, which would keep alive what they held."""
        return Refusal(self.key, **self.values)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.key, dict(self.values)))


def _said(error: BaseException) -> "str | Refusal":
    if isinstance(error, Refusal):
        return error.alone()
    if isinstance(error, json.JSONDecodeError):
        at = {"line": error.lineno, "column": error.colno, "char": error.pos}
        return Refusal("json_syntax", said=error.msg, **at)
    return str(error)


def _rebuild(kind: type[Refusal], key: str, values: dict[str, str | int | float]) -> Refusal:
    return kind(key, **values)


def unreadable(error: OSError, path: object) -> Refusal:
    """Why the system does not let a file be read, for an error that may name the file itself."""
    keys = {
        errno.EACCES: "no_rights",
        errno.EPERM: "no_rights",
        errno.ELOOP: "link_circle",
        errno.ENOENT: "gone",
    }
    known = keys.get(error.errno or 0)
    reason = Refusal(known) if known else error.strerror or str(error)
    return Refusal("unreadable", path=str(error.filename or path), reason=reason)
