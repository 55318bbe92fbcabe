"""Look up a policy class by name."""

from __future__ import annotations

from typing import Any

from releaf.cli.console import fail


def policy_class(name: str) -> Any:
    """The policy class of this name; exits with an error message if there is none."""
    from releaf import policies
    from releaf.policies.class_lookup import policy_classes

    known = policy_classes(policies)
    if name not in known:
        fail(f"there is no policy {name!r}; expected one of {', '.join(known)}")
    return known[name]
