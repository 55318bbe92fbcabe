"""Validation of AdaptiveReleaf's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from releaf.decision import ActionName
from releaf.policies.argument_checks import positive, whole

LEAST_WINDOW = 32  # rewards after which a learner may forget


def checked_observe(observe: Any, rules: list[str]) -> str:
    """Validate ``observe``; "explored" where rewards are requested by a rule."""
    if observe == "labels" and rules:
        raise ValueError(f"observe='labels' wants every label, so {rules[0]} can't be set")
    if observe not in ("always", "labels") and not (observe == "explored" and rules):
        raise ValueError(f"observe must be 'always' or 'labels', got observe={observe!r}")
    return "explored" if rules else str(observe)


def checked_rules(rules: Mapping[str, Any], epsilon: Any, stop_asking_after: Any) -> list[str]:
    """Names of the rules that request rewards, of those that can be set together; ``rules`` has their values."""
    rules_set = [name for name, value in rules.items() if value is not None]
    if rules["delta"] is not None and len(rules_set) > 1:
        given = " and ".join(f"{name}={rules[name]!r}" for name in rules_set)
        raise ValueError(f"delta can't be set together with label_budget or observation_cost, got {given}")
    if (rules["delta"] is None) != (epsilon is None):
        raise ValueError(f"delta and epsilon go together, got delta={rules['delta']!r}, epsilon={epsilon!r}")
    if stop_asking_after is not None and rules["observation_cost"] is None:
        raise ValueError(
            f"stop_asking_after={stop_asking_after!r} needs observation_cost, which further labels must be worth"
        )
    return rules_set


Floor = float | Mapping[ActionName, float]


def checked_floor(floor: Any, names: tuple[ActionName, ...]) -> float | dict[ActionName, float]:
    """Validate ``least_probability``: a number for all actions, or a mapping from some of them to their own.

    A state file and a request have names as text, so a text stands for the action that is written like it.
    """
    if not isinstance(floor, Mapping):
        return positive("least_probability", floor, zero=True, most=0.5)
    by_text: dict[Any, ActionName] = {str(name): name for name in names} | {name: name for name in names}
    found: dict[ActionName, float] = {}
    for name, least in floor.items():
        if name not in by_text:
            raise ValueError(f"least_probability has an unknown action {name!r}: the actions are {names!r}")
        found[by_text[name]] = positive(f"least_probability of {name!r}", least, zero=True, most=1.0)
    total = sum(found.values())
    if total > 1.0 + 1e-12:
        raise ValueError(
            f"least_probability has numbers that sum to {total:g}: expected at most 1, got {dict(floor)!r}"
        )
    return found


def checked_forget(forget: Any, most: int) -> Any:
    """Validate ``forget``: None, "auto", or a number of rewards up to ``most``."""
    if forget is None or (isinstance(forget, str) and forget == "auto"):
        return forget
    try:
        return whole("forget", forget, least=LEAST_WINDOW, most=most)
    except ValueError as error:
        raise ValueError(f"{error}, or 'auto', or None") from None
