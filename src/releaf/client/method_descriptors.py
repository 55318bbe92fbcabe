"""Descriptors for methods written once for both clients: `Client` returns results, `AsyncClient` awaits them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from releaf.client.call import ApiCall
from releaf.client.transports import BLOCKING, iterate, run

if TYPE_CHECKING:
    from releaf.client.clients import AsyncClient, Client

P = ParamSpec("P")
T = TypeVar("T")


class CallMethod(Generic[P, T]):
    """A method that builds one call, which its client sends."""

    def __init__(self, build: Callable[Concatenate[Any, P], ApiCall[T]]) -> None:
        self.build = build

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return _method(self.build, client, lambda call: client._send(call), run)


class StreamMethod(Generic[P, T]):
    """A method that is an asynchronous generator of the results of several calls."""

    def __init__(self, build: Callable[Concatenate[Any, P], AsyncIterator[T]]) -> None:
        self.build = build

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return _method(self.build, client, lambda items: items, iterate)


def _method(
    build: Callable[..., Any], client: Any, start: Callable[[Any], Any], finish: Callable[[Any], Any]
) -> Callable[..., Any]:
    if client is None:
        return _documented(build)

    @wraps(build)
    def method(*args: Any, **kwargs: Any) -> Any:
        started = start(build(client, *args, **kwargs))
        return finish(started) if client._transport is BLOCKING else started

    return method


def _documented(build: Callable[..., Any]) -> Callable[..., Any]:
    """The method as ``help`` and the reference show it: with the type of its result."""

    @wraps(build)
    def method(*args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{build.__name__} is a method of a Client or AsyncClient: create one first")

    built = str(build.__annotations__["return"])  # ApiCall[…] or AsyncIterator[…]
    result = built.removeprefix("Async") if built.startswith("Async") else built[len("ApiCall[") : -1]
    method.__annotations__ = build.__annotations__ | {"return": result}
    method.__signature__ = signature(build).replace(return_annotation=result)  # type: ignore[attr-defined]
    return method
