"""Repeated requests: whether a request with a known idempotency key asks for the same decision again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from releaf.service.errors import ApiError
from releaf.service.experiments.apprentice_mode import APPRENTICE
from releaf.service.experiments.decision_costs import is_same_cost
from releaf.service.experiments.keyed_hashes import KeyedHashes
from releaf.service.experiments.state import ExperimentState
from releaf.service.log.events import Decided, ExperimentAction
from releaf.service.many_actions import ManyActions
from releaf.service.messages import Baseline


class AskedBefore(NamedTuple):
    """What a request asks for one context whose idempotency key is known; ``subject`` is a keyed hash."""

    context: Any
    eligible: Sequence[ExperimentAction] | None
    subject: str | None
    many: ManyActions | None
    cost: Any
    baseline: Baseline | None = None
    label_cost: float | None = None


def require_same_request(
    asked: AskedBefore, recorded: Decided, key: str | None, state: ExperimentState, hashes: KeyedHashes
) -> None:
    """Raise unless a recorded decision is the answer to what is asked."""
    if not _is_of_context(recorded, state.to_rows([asked.context])[0], hashes):
        different = "for another context"
    elif not _is_of_many(recorded.many, asked.many):
        different = "with other actions or k"
    elif not _is_among(recorded, asked.eligible, state):
        different = "with other eligible actions"
    elif not is_same_cost(recorded.costs, asked.cost, state.actions.at(recorded.number)):
        different = "with other costs"
    elif recorded.label_cost != asked.label_cost:
        different = "with another label_cost"
    elif not _is_of_baseline(recorded, asked.baseline):
        different = "with another baseline"
    elif recorded.subject != asked.subject:
        different = "for another subject"
    else:
        return
    raise ApiError(409, "key_reused", f"key {key!r} was used {different}: use another key")


def _is_of_baseline(recorded: Decided, baseline: Baseline | None) -> bool:
    """Whether the application decided the same; a decision of a promoted learner has no baseline."""
    if APPRENTICE not in (recorded.shadows or {}):
        return True
    return baseline is not None and (recorded.action, recorded.probability) == (baseline.action, baseline.probability)


def _is_of_context(recorded: Decided, row: list[Any], hashes: KeyedHashes) -> bool:
    """Whether a recorded decision may be of this context, of which retention may have left a hash or nothing."""
    if recorded.context_hash is not None:
        return recorded.context_hash == hashes.context(row)
    return not recorded.context or recorded.context == row


def _is_of_many(recorded: ManyActions | None, many: ManyActions | None) -> bool:
    """Whether two requests had the same actions with features, and the same size of a slate."""
    return many is None if recorded is None else recorded.is_same_request(many)


def _is_among(recorded: Decided, eligible: Sequence[ExperimentAction] | None, state: ExperimentState) -> bool:
    """Whether a decision chose among these actions; None for all of them."""
    if eligible is None and state.has_requested_actions:  # the log names all of that time
        return True
    actions = set(state.actions.at(recorded.number))
    return set(recorded.eligible or actions) == (actions if eligible is None else set(eligible))
