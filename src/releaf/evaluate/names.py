"""Names of policies and streams: the package's own, or ``"module:attribute"`` for a user's."""

from __future__ import annotations

import importlib
import inspect
import sys
from functools import lru_cache
from typing import Any

from releaf import ensembles, policies, streams
from releaf.evaluate.digests import digest


def policy_maker(name: str) -> Any:
    """The class, or function, that makes the policy of this name."""
    if ":" in name:
        return _imported("policy", name)
    known = {made: getattr(package, made) for package in (policies, ensembles) for made in package.__all__}
    return _known("policy", name, {made: kind for made, kind in known.items() if hasattr(kind, "traits")})


def stream_maker(name: str) -> Any:
    """The function that makes the stream of this name."""
    if ":" in name:
        return _imported("stream", name)
    known = {made: getattr(streams, made) for made in streams.__all__ if not made.startswith("read_")}
    return _known("stream", name, {made: maker for made, maker in known.items() if inspect.isfunction(maker)})


def sources_of(policy: str, *streams: str) -> list[tuple[str | None, ...]]:
    """Digests of the source files of each ``"module:attribute"`` among a policy and streams."""
    makers = [(policy, policy_maker), *((stream, stream_maker) for stream in streams)]
    return [_sources(maker(name), name.partition(":")[0]) for name, maker in makers if ":" in name]


@lru_cache(maxsize=1_000)  # by the object, which a reload replaces: a digest goes with the code that runs
def _sources(maker: Any, module: str) -> tuple[str | None, ...]:
    """Digests of the module that was named and of the one that the object comes from."""
    modules = dict.fromkeys((module, getattr(maker, "__module__", module)))
    paths = (getattr(sys.modules.get(name), "__file__", None) for name in modules)
    return tuple(None if path is None else digest(path) for path in paths)


def _known(kind: str, name: str, known: dict[str, Any]) -> Any:
    if name not in known:
        raise ValueError(f"there is no {kind} {name!r}; expected one of {', '.join(known)}, or 'module:name'")
    return known[name]


def _imported(kind: str, name: str) -> Any:
    """The attribute that an entry point such as ``"package.module:Class"`` names."""
    place, _, attribute = name.partition(":")
    if not (place and attribute) or place == "__main__":
        raise ValueError(f"{kind} is {name!r}: expected 'module:name', with a module that other processes can import")
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise  # the module is there, something that it imports is not
        raise ValueError(f"{kind} is {name!r}: there is no module {error.name!r} to import") from None
    try:
        maker = getattr(module, attribute)
    except AttributeError:
        raise ValueError(f"{kind} is {name!r}: module {place!r} has no attribute {attribute!r}") from None
    if not callable(maker):
        raise TypeError(f"{kind} is {name!r}, which is {maker!r}: expected a class or a function")
    return maker
