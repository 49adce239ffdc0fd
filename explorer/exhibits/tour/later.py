"""Words and blocks that wait for a view, so that what a step finds is the same in all languages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from explorer.exhibits import View

Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True, eq=False)
class Later(Generic[Result_co]):
    """A call that lacks only the view. The cache can measure and seal its arguments, which it
    cannot do for a closure."""

    function: Callable[..., Result_co]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]

    def __call__(self, view: View) -> Result_co:
        """The result for a view, for which its arguments are made first."""
        options = for_view(view, self.options)
        return self.function(view, *for_view(view, self.arguments), **options)


def later(function: Callable[..., Result_co], *arguments: Any, **options: Any) -> Later[Result_co]:
    """The call `function(view, *arguments, **options)`."""
    return Later(function, arguments, options)


def word(key: str, **values: object) -> Later[str]:
    """The text at a key."""
    return later(View.t, key, **values)


def for_view(view: View, value: Any) -> Any:
    """A value with every `Later` in it called."""
    match value:
        case Later():
            return value(view)
        case dict():
            return {name: for_view(view, inner) for name, inner in value.items()}
        case list() | tuple():
            return type(value)(for_view(view, inner) for inner in value)
    return value
