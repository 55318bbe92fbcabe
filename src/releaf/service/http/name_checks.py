"""Checks of names that a request gives to actions and features, which pages, files and logs will show.

They apply when a name is given, not to experiments in the store: those keep the names they have.
"""

from __future__ import annotations

import re
from typing import Any

from releaf.service.errors import invalid_request
from releaf.service.messages import NewExperiment
from releaf.service.structured_logging import BIDIRECTIONAL

MAX_NAME = 200  # characters
_BIDIRECTIONAL = re.compile(f"[{BIDIRECTIONAL}]")


def check_experiment_names(experiment: NewExperiment) -> None:
    """Raise an error with status 422 if an action or a feature of a new experiment has a name that is not allowed."""
    for action in experiment.actions:
        check_name("action", action)
    for features in (experiment.features, experiment.action_features):
        for feature in features if isinstance(features, list) else []:
            check_name("feature", feature.get("name") if isinstance(feature, dict) else feature)
            values = feature.get("values") if isinstance(feature, dict) else None
            for value in values if isinstance(values, list) else []:
                _require_left_to_right("value", value)


def check_name(what: str, name: Any, most: int = MAX_NAME) -> None:
    """Raise an error with status 422 if a name is too long, or has characters that change the order of others."""
    if not isinstance(name, str):  # a number; other values are rejected elsewhere
        return
    if len(name) > most:
        raise invalid_request(
            f"the name of {what} {name[:20]!r}… has {len(name):,} characters: expected at most {most}"
        )
    _require_left_to_right(what, name)


def _require_left_to_right(what: str, name: Any) -> None:
    found = _BIDIRECTIONAL.search(name) if isinstance(name, str) else None
    if found:
        code = f"U+{ord(found[0]):04X}"
        raise invalid_request(
            f"the name of {what} {name!r} has the bidirectional control character {code}: expected none"
        )
