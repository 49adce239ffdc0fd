"""The process that renders a model's chat template: one line of JSON in, one out.

A template is a program in Jinja that comes with a model. It runs in Jinja's own sandbox, and here
under the limits of `bounds`.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from explorer.sandbox.bounds import answer_one

ROOM = 64_000_000
"""Memory limit in bytes, in addition to what Jinja takes."""
SECONDS = 1
MOST_TEXT = 100_000
"""Maximum characters of a rendered text; the app refuses far shorter ones in words."""
MOST_REASON = 300


class _Generation(Extension):
    """The tag `generation`, which marks a model's own turns for training, and writes nothing."""

    tags = {"generation"}  # noqa: RUF012 (as its base class)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    """Jinja's own filter escapes HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _refuse(message: str) -> None:
    raise TemplateError(message)


def rendered(source: str, tokens: Mapping[str, str], question: str) -> str:
    """The prompt for a user's message, as `apply_chat_template` of `transformers` writes it with
    `add_generation_prompt`. Raises an Exception of Jinja, or any that the template causes."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    now: Callable[[str], str] = lambda form: datetime.now().strftime(form)  # noqa: E731
    environment.globals |= {"raise_exception": _refuse, "strftime_now": now}
    values = {"messages": [{"role": "user", "content": question}], "tools": None, "documents": None}
    return environment.from_string(source).render(**values, add_generation_prompt=True, **tokens)


def answered(**asked: Any) -> dict[str, str]:
    """The rendered text, or the reason why there is none."""
    try:
        text = rendered(**asked)
    except MemoryError:  # this process ends
        raise
    except Exception as error:  # a template may cause any
        return {"reason": f"{type(error).__name__}: {error}"[:MOST_REASON]}
    return {"text": text} if len(text) <= MOST_TEXT else {"reason": f"{len(text):,} characters"}


if __name__ == "__main__":
    answer_one(answered, ROOM, SECONDS)
