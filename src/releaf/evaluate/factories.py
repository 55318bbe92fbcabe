"""Look-up of policies and streams by name: the package's own, or a user's as ``"module:attribute"``."""

from __future__ import annotations

import importlib
import inspect
import sys
from functools import lru_cache
from typing import Any

from releaf import ensembles, policies, streams
from releaf.evaluate.file_digests import digest
from releaf.policies.class_lookup import policy_classes


def policy_factory(name: str) -> Any:
    """The class or function that creates the policy of this name."""
    if ":" in name:
        return _import_attribute("policy", name)
    return _lookup("policy", name, policy_classes(policies, ensembles))


def stream_factory(name: str) -> Any:
    """The function that creates the stream of this name."""
    if ":" in name:
        return _import_attribute("stream", name)
    known = {made: getattr(streams, made) for made in streams.__all__ if not made.startswith("read_")}
    return _lookup("stream", name, {made: factory for made, factory in known.items() if inspect.isfunction(factory)})


def sources_of(policy: str, *streams: str) -> list[tuple[str | None, ...]]:
    """Digests of the source files of each ``"module:attribute"`` among a policy and streams."""
    factories = [(policy, policy_factory), *((stream, stream_factory) for stream in streams)]
    return [_sources(factory(name), name.partition(":")[0]) for name, factory in factories if ":" in name]


@lru_cache(maxsize=1_000)  # keyed by the object, which a reload replaces, so that the digest matches the running code
def _sources(factory: Any, module: str) -> tuple[str | None, ...]:
    """Digests of the named module and of the module that defines the object."""
    modules = dict.fromkeys((module, getattr(factory, "__module__", module)))
    paths = (getattr(sys.modules.get(name), "__file__", None) for name in modules)
    return tuple(None if path is None else digest(path) for path in paths)


def _lookup(kind: str, name: str, known: dict[str, Any]) -> Any:
    if name not in known:
        raise ValueError(f"there is no {kind} {name!r}; expected one of {', '.join(known)}, or 'module:name'")
    return known[name]


def _import_attribute(kind: str, name: str) -> Any:
    """The attribute that an entry point such as ``"package.module:Class"`` names."""
    path, _, attribute = name.partition(":")
    if not (path and attribute) or path == "__main__":
        raise ValueError(f"{kind} is {name!r}: expected 'module:name', with a module that other processes can import")
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{path}.".startswith(f"{error.name}."):
            raise  # the module exists, but one of its imports is missing
        raise ValueError(f"{kind} is {name!r}: there is no module {error.name!r} to import") from None
    try:
        factory = getattr(module, attribute)
    except AttributeError:
        raise ValueError(f"{kind} is {name!r}: module {path!r} has no attribute {attribute!r}") from None
    if not callable(factory):
        raise TypeError(f"{kind} is {name!r}, which is {factory!r}: expected a class or a function")
    return factory
