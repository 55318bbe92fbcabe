"""Validation of AdaptiveReleaf's parameters."""

from __future__ import annotations

from typing import Any

from releaf.policies.argument_checks import whole

LEAST_WINDOW = 32  # rewards after which a learner may forget


def checked_observe(observe: Any, rules: list[str]) -> str:
    """Validate ``observe``; "explored" where rewards are requested by a rule."""
    if observe == "labels" and rules:
        raise ValueError(f"observe='labels' wants every label, so {rules[0]} can't be set")
    if observe not in ("always", "labels") and not (observe == "explored" and rules):
        raise ValueError(f"observe must be 'always' or 'labels', got observe={observe!r}")
    return "explored" if rules else str(observe)


def checked_forget(forget: Any, most: int) -> Any:
    """Validate ``forget``: None, "auto", or a number of rewards up to ``most``."""
    if forget is None or (isinstance(forget, str) and forget == "auto"):
        return forget
    try:
        return whole("forget", forget, least=LEAST_WINDOW, most=most)
    except ValueError as error:
        raise ValueError(f"{error}, or 'auto', or None") from None
