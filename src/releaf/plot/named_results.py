"""Names of the results of a chart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from releaf.evaluate.ledger import Ledger
from releaf.policy import Trace


def named_results(results: Any) -> dict[str, list[Any]]:
    """Results by name; a learner is named by its class, a run of a list by its policy, or else by its position."""
    if isinstance(results, Mapping):
        named = {str(name): list(runs) if isinstance(runs, list | tuple) else [runs] for name, runs in results.items()}
    elif isinstance(results, list | tuple):
        named = {}
        for index, result in enumerate(results, start=1):
            known = result.policy if isinstance(result, Ledger | Trace) else type(result).__name__
            name = known or f"run {index}"
            named[name if name not in named else f"{name} {index}"] = [result]
    else:
        named = {"": [results]}
    if not named or not all(named.values()):
        raise ValueError(f"results must not be empty, got {results!r}")
    return named
