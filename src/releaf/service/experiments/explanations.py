"""What an experiment has learnt, in terms a person can read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from releaf.decision import Decision
from releaf.service.errors import Problem, invalid
from releaf.service.experiments.state import Experiment
from releaf.service.experiments.time_series import iso
from releaf.service.log.events import Decided
from releaf.service.messages import (
    Answer,
    ExplanationInfo,
    IntervalInfo,
    IntervalRewards,
    PartitionInfo,
    RelevanceInfo,
)

Label = str | int
Relevant = tuple[tuple[int, ...] | None, ...]
MOST_KNOWN = 4096
_known: dict[tuple[Any, ...], dict[str, list[str] | None]] = {}


def answers(events: Sequence[Decided], state: Experiment) -> list[Answer]:
    """Decisions of one request as its client gets them; what they have in common is worked out once."""
    within, names = state.spec.rewards.within_seconds, state.learner.schema.names
    made: list[Answer] = []
    actions: list[Label] = []
    labels: list[str] = []
    relevant: Relevant | None = None
    named: dict[str, list[str] | None] | None = None
    for event in events:
        if actions is not (actions := state.actions.at(event.number)):
            labels, relevant = [str(action) for action in actions], None
        if relevant is not (relevant := event.relevant):
            named = None if relevant is None else _named(relevant, actions, names)
        made.append(
            Answer(
                event.number,
                event.action,
                event.probability,
                event.explored,
                event.wants_reward,
                iso(event.at + within) if within is not None and event.wants_reward else None,
                None if event.estimates is None else dict(zip(labels, event.estimates, strict=True)),
                named,
            )
        )
    return made


def _named(relevant: Relevant, actions: list[Label], names: tuple[str, ...]) -> dict[str, list[str] | None]:
    """Relevant features by their names; kept, since few different ones recur often."""
    which = (names, tuple(actions), relevant)
    found = _known.get(which)
    if found is None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        found = _known[which] = {
            str(action): None if places is None else [names[place] for place in places]
            for action, places in zip(actions, relevant, strict=True)
        }
    return found


def relevance(state: Experiment) -> RelevanceInfo:
    """How relevant each feature is to each action, where the policy tells."""
    learner = state.learner
    tells = hasattr(learner, "relevance")
    meaning = f"{state.seat.policy.name} does not tell features apart"
    if tells:
        meaning = (
            "share of each feature in what is explained of the action's reward"
            if hasattr(learner, "effect")
            else "share of exploitations in which the feature was among the relevant ones of the action"
        )
    return RelevanceInfo(
        actions=list(learner.actions),
        features=list(learner.schema.names),
        relevance=learner.relevance().tolist() if tells else None,
        meaning=meaning,
    )


def partition(state: Experiment, feature: str) -> PartitionInfo:
    """How a feature's values are divided, and what actions earned where."""
    learner = state.learner
    if feature not in learner.schema.names:
        known = ", ".join(learner.schema.names[:20])
        raise Problem(404, "unknown_feature", f"there is no feature {feature!r}; there are {known}")
    if hasattr(learner, "effect"):
        return PartitionInfo(feature=feature, kind="effects", intervals=_effects(learner, feature))
    if hasattr(learner, "interval_rewards"):
        return PartitionInfo(feature=feature, kind="intervals", intervals=_intervals(learner, feature))
    return PartitionInfo(feature=feature, kind="none", intervals=[])


def _effects(learner: Any, feature: str) -> list[IntervalInfo]:
    by_action = learner.effect(feature)
    columns = list(by_action.values())
    made = []
    for place, (value, _) in enumerate(columns[0]):
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        where = "missing" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
        amounts = [IntervalRewards(action, None, column[place].amount) for action, column in by_action.items()]
        made.append(IntervalInfo(where, number, number, None, amounts))
    return made


def _intervals(learner: Any, feature: str) -> list[IntervalInfo]:
    described = learner.schema.features[learner.schema.index(feature)]
    made = []
    for interval, rewards in zip(learner.partition(feature), learner.interval_rewards(feature), strict=True):
        missing = interval.low != interval.low
        made.append(
            IntervalInfo(
                "missing" if missing else described.describe(interval.low, interval.high),
                None if missing else interval.low,
                None if missing else interval.high,
                interval.arrivals,
                [
                    IntervalRewards(action, count, mean if count else None)
                    for action, (count, mean) in zip(learner.actions, rewards, strict=True)
                ],
            )
        )
    return made


def explanation(state: Experiment, event: Decided) -> ExplanationInfo:
    """Why a decision of the log was made."""
    (told,) = answers([event], state)
    learner, actions = state.learner, state.actions.at(event.number)
    is_its_own = state.place(event.number) > state.seat.since and actions == list(learner.actions[: len(actions)])
    if is_its_own and hasattr(learner, "explain"):
        own = _decision(state, event)
        text = learner.explain(own).replace(f"Decision {own.id} ", f"Decision {event.number} ", 1)
    else:
        text = _in_words(told, event.number)
    return ExplanationInfo(
        event.number, told.action, told.explored, told.probability, told.estimates, told.relevant, text
    )


def preview(state: Experiment, context: Any) -> ExplanationInfo:
    """What would be decided now, and why; nothing changes."""
    row = state.rows([context])[0]
    learner = state.learner
    try:
        choice = learner.preview(row)
    except (ValueError, TypeError, OverflowError) as error:
        raise invalid(str(error)) from None
    event = Decided(
        state.last_at,
        state.tally.decisions + 1,
        row,
        choice.action,
        choice.probability,
        choice.explored,
        choice.wants_reward,
        choice.estimates,
        choice.relevant,
        None,
        None,
    )
    (told,) = answers([event], state)
    text = learner.explain(choice) if hasattr(learner, "explain") else _in_words(told, event.number)
    for did, would in (("chose", "choose"), ("explored", "explore")):
        text = re.sub(rf"^Decision \d+ {did}\b", f"It would {would}", text)
    return ExplanationInfo(None, told.action, told.explored, told.probability, told.estimates, told.relevant, text)


def _decision(state: Experiment, event: Decided) -> Decision:
    """A decision of the log as its learner gave it."""
    learner = state.learner
    return learner.recall(  # type: ignore[no-any-return]
        state.seat.step(state.place(event.number)),
        event.context,
        event.action,
        actions=state.actions.at(event.number),
        explored=event.explored,
        wants_reward=event.wants_reward,
        probability=event.probability,
        estimates=event.estimates,
        relevant=event.relevant,
    )


def _in_words(told: Answer, number: int) -> str:
    """What the log itself tells of a decision."""
    chance = "" if told.probability is None else f", with probability {told.probability:.3g}"
    how = "to learn about it" if told.explored else "as the best known action"
    lines = [f"Decision {number} chose {told.action!r} {how}{chance}."]
    for action, estimate in sorted((told.estimates or {}).items(), key=lambda entry: -entry[1]):
        features = (told.relevant or {}).get(action)
        basis = f", from {' and '.join(features)}" if features else ""
        lines.append(f"  {action!r}: {estimate:.3f}{basis}")
    lines.append("The reward is wanted." if told.wants_reward else "No reward was asked for.")
    return "\n".join(lines)
