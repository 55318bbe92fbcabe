"""A decision of the log with its outcome, as a message of the API."""

from __future__ import annotations

import json

from releaf.service.log.events import Decided
from releaf.service.messages import Recorded
from releaf.service.store.base import RewardRow
from releaf.service.timestamps import format_timestamp


def decision_record(event: Decided, row: RewardRow | None, names: tuple[str, ...], is_pending: bool) -> Recorded:
    """A decision with its outcome."""
    many = event.many
    outcome = row.outcome if row is not None else "waiting" if is_pending else "dropped"
    if not event.wants_reward:
        outcome = "unasked"
    return Recorded(
        decision=event.number,
        at=format_timestamp(event.at),
        context=dict(zip(names, event.context, strict=True)) if event.context else {},  # dropped by its retention
        action=event.action,
        probability=event.probability,
        explored=event.explored,
        wants_reward=event.wants_reward,
        eligible=None if event.eligible is None else list(event.eligible),
        outcome=outcome,
        reward=None if row is None or row.reward is None else json.loads(row.reward),
        rewarded_at=None if row is None or row.reward is None else format_timestamp(row.at),
        subject=event.subject,
        context_hash=event.context_hash,
        actions=None if many is None else many.actions,
        slate=None if many is None or many.slate is None else list(many.slate),
        slate_probabilities=None if many is None or many.probabilities is None else list(many.probabilities),
        cost=event.cost,
        costs=None if event.costs is None else list(event.costs),
        group=event.group,
        label_cost=event.label_cost,
    )
