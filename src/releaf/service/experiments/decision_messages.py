"""Decisions as messages of the API: as answers to a request, and as records of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from releaf.service.experiments.receipts import Receipts
from releaf.service.experiments.state import ExperimentState
from releaf.service.log.events import Decided, ExperimentAction
from releaf.service.messages import Answer
from releaf.service.timestamps import format_timestamp

Relevant = tuple[tuple[int, ...] | None, ...]
MAX_CACHED = 4096
_cached_names: dict[tuple[Any, ...], dict[str, list[str] | None]] = {}


def decision_answers(
    events: Sequence[Decided], state: ExperimentState, receipts: Receipts | None = None
) -> list[Answer]:
    """The answers to a request for these decisions; parts that they share are computed once."""
    within, names = state.spec.rewards.within_seconds, state.learner.schema.names
    answers: list[Answer] = []
    actions: list[ExperimentAction] = []
    labels: list[str] = []
    relevant: Relevant | None = None
    named: dict[str, list[str] | None] | None = None
    for event in events:
        if actions is not (actions := state.actions.at(event.number)):
            labels, relevant = [str(action) for action in actions], None
        if relevant is not (relevant := event.relevant):
            named = None if relevant is None else _name_features(relevant, actions, names)
        answers.append(
            Answer(
                event.number,
                event.action,
                event.probability,
                event.explored,
                event.wants_reward,
                format_timestamp(event.at + within) if within is not None and event.wants_reward else None,
                _name_estimates(event, labels),
                named,
                None if receipts is None else receipts.make(event.number),
                None if event.eligible is None else list(event.eligible),
                None if event.many is None or event.many.slate is None else list(event.many.slate),
                None if event.many is None or event.many.probabilities is None else list(event.many.probabilities),
                event.cost,
                event.group,
                event.label_cost,
            )
        )
    return answers


def _name_estimates(event: Decided, labels: list[str]) -> dict[str, float] | None:
    """Estimates by action: of all actions, or of the eligible ones only, as policies for many actions have them."""
    if event.estimates is None:
        return None
    if event.eligible is not None and len(event.eligible) == len(event.estimates):
        labels = [str(action) for action in event.eligible]
    return dict(zip(labels, event.estimates, strict=True))


def _name_features(
    relevant: Relevant, actions: list[ExperimentAction], names: tuple[str, ...]
) -> dict[str, list[str] | None]:
    """Names of the relevant features of each action; cached, because the same ones recur often."""
    key = (names, tuple(actions), relevant)
    named = _cached_names.get(key)
    if named is None:
        if len(_cached_names) >= MAX_CACHED:
            _cached_names.clear()
        named = _cached_names[key] = {
            str(action): None if indices is None else [names[index] for index in indices]
            for action, indices in zip(actions, relevant, strict=True)
        }
    return named
