"""Methods that are written once and work in both clients: one returns answers, the other awaits them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from releaf.client.calls import Call, Walk

if TYPE_CHECKING:
    from releaf.client.clients import AsyncClient, Client

P = ParamSpec("P")
T = TypeVar("T")


class Operation(Generic[P, T]):
    """A method that builds one call; the client that it belongs to sends it."""

    def __init__(self, build: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self.build = build

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return _shown(self.build) if client is None else _bound(self.build, client, client._send)


class Walking(Generic[P, T]):
    """A method that makes one call after the other; the client that it belongs to iterates over what they give."""

    def __init__(self, build: Callable[Concatenate[Any, P], Walk[T]]) -> None:
        self.build = build

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return _shown(self.build) if client is None else _bound(self.build, client, client._walk)


def _bound(build: Callable[..., Any], client: Any, run: Callable[[Any], Any]) -> Callable[..., Any]:
    @wraps(build)
    def method(*args: Any, **kwargs: Any) -> Any:
        return run(build(client, *args, **kwargs))

    return method


def _shown(build: Callable[..., Any]) -> Callable[..., Any]:
    """As ``help`` and the reference show it: with what it gives to users, not what it builds."""

    @wraps(build)
    def method(*args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{build.__name__} is a method of a Client or AsyncClient: make one first")

    built = str(build.__annotations__["return"])  # Call[…] or Walk[…]
    given = built.replace("Walk[", "Iterator[") if built.startswith("Walk") else built[5:-1]
    method.__annotations__ = build.__annotations__ | {"return": given}
    method.__signature__ = signature(build).replace(return_annotation=given)  # type: ignore[attr-defined]
    return method
