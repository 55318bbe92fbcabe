"""Look up a policy class by name, and check its options."""

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


def check_options(made: Any, options: dict[str, Any]) -> None:
    """Exit with an error message if a policy class has no parameter of such a name."""
    from releaf.policies.parameters import parameter_defaults

    unknown = [name for name in options if name not in parameter_defaults(made)]
    if unknown:
        fail(f"{made.__name__} has no option {unknown[0]!r}; it has {', '.join(parameter_defaults(made))}")
