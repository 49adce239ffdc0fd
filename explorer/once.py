"""A property that is computed on first access and cached on its object."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class once(Generic[Value]):  # noqa: N801 (it is used as a decorator)
    """`functools.cached_property` as it is since Python 3.12: without a lock.

    Python 3.11 holds one lock for all objects of a class while it computes. A session that yields
    to others during the computation (`runs.passes`) would wait for them, and they for the lock.
    Here two threads that read at once may both compute; the second result is cached.
    """

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> Value | Self:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._function(instance)
        return value
