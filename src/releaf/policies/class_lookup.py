"""Lookup of policy classes by name."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from releaf.policies.base import OnlinePolicy


def policy_classes(*packages: ModuleType) -> dict[str, Any]:
    """Policy classes that packages export, by name, without base classes.

    The values are Any because each constructor takes parameters of its own.
    """
    exported = {name: getattr(package, name) for package in packages for name in package.__all__}
    return {name: made for name, made in exported.items() if _is_concrete(made)}


def _is_concrete(made: Any) -> bool:
    return isinstance(made, type) and issubclass(made, OnlinePolicy) and "traits" in vars(made)
