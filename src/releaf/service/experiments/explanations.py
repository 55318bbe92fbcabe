"""Explanations: why a decision was made, which features are relevant, and the partition of a feature."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from releaf import from_bytes
from releaf.decision import CONTROL, Decision
from releaf.explanation import Explanation
from releaf.policy import ServedPolicy
from releaf.service.errors import ApiError, invalid_request
from releaf.service.experiments.decision_costs import convert_costs
from releaf.service.experiments.decision_messages import decision_answers
from releaf.service.experiments.label_costs import require_label_costs
from releaf.service.experiments.learner_slot import action_names
from releaf.service.experiments.state import ExperimentState
from releaf.service.log.events import Decided, ExperimentAction
from releaf.service.messages import Answer, ExplanationInfo, IntervalInfo, IntervalRewards, PartitionInfo, RelevanceInfo

FALSE_RELEVANCE = 0.005  # chance that any feature of pure noise is shown as relevant to any action
DRAWS = 400  # of a preview: a share is then known up to 5 percentage points


def relevance(state: ExperimentState) -> RelevanceInfo:
    """Relevance of each feature to each action, if the policy has it."""
    learner = state.learner
    has_relevance = learner.traits.finds_relevance
    meaning = f"{state.slot.policy.name} does not learn relevance"
    if has_relevance:
        meaning = (
            "share of each feature in what is explained of the action's reward"
            if learner.traits.has_effects
            else "share of exploitations in which the feature was among the relevant ones of the action"
        )
    found = learner.relevance() if has_relevance else None
    explained = getattr(found, "explained", None)
    return RelevanceInfo(
        actions=action_names(learner),
        features=list(learner.schema.names),
        relevance=None if found is None else found.tolist(),
        meaning=meaning,
        certainty=_certainties(learner),
        least_certainty=1.0 - FALSE_RELEVANCE / (max(len(learner.actions), 1) * len(learner.schema.names)),
        explained=None if explained is None else explained.tolist(),
    )


def _certainties(learner: ServedPolicy) -> list[list[float]] | None:
    """Certainty of the relevance of each feature to each action, if the policy knows it."""
    relevant_features = getattr(learner, "relevant_features", None)
    if relevant_features is None:
        return None
    by_action = {action: {one.feature: one.certainty for one in some} for action, some in relevant_features().items()}
    return [[by_action[action].get(name, 0.0) for name in learner.schema.names] for action in learner.actions]


def partition(state: ExperimentState, feature: str) -> PartitionInfo:
    """Partition of a feature's values, with the rewards of each action in each part."""
    learner = state.learner
    if feature not in learner.schema.names:
        known = ", ".join(learner.schema.names[:20])
        raise ApiError(404, "unknown_feature", f"unknown feature {feature!r}: expected one of {known}")
    if learner.traits.has_effects:
        return PartitionInfo(feature=feature, kind="effects", intervals=_effects(learner, feature))
    if learner.traits.has_intervals:
        return PartitionInfo(feature=feature, kind="intervals", intervals=_intervals(learner, feature))
    return PartitionInfo(feature=feature, kind="none", intervals=[])


def _effects(learner: ServedPolicy, feature: str) -> list[IntervalInfo]:
    by_action = learner.effect(feature)
    columns = list(by_action.values())
    intervals = []
    for index, (value, _) in enumerate(columns[0]):
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        where = "missing" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
        amounts = [IntervalRewards(action, None, by_action[action][index].amount) for action in action_names(learner)]
        intervals.append(IntervalInfo(where, number, number, None, amounts))
    return intervals


def _intervals(learner: ServedPolicy, feature: str) -> list[IntervalInfo]:
    described = learner.schema.features[learner.schema.index(feature)]
    intervals = []
    for interval, rewards in zip(learner.partition(feature), learner.interval_rewards(feature), strict=True):
        missing = interval.low != interval.low
        intervals.append(
            IntervalInfo(
                "missing" if missing else described.describe(interval.low, interval.high),
                None if missing else interval.low,
                None if missing else interval.high,
                interval.arrivals,
                [
                    IntervalRewards(action, count, mean if count else None)
                    for action, (count, mean) in zip(action_names(learner), rewards, strict=True)
                ],
            )
        )
    return intervals


async def explain_decision(state: ExperimentState, event: Decided) -> ExplanationInfo:
    """Explain a decision of the log. What takes long is done in a thread, so that decisions go on."""
    (answer,) = decision_answers([event], state)
    learner, actions = state.learner, state.actions.at(event.number)
    is_own = state.ordinal(event.number) > state.slot.since
    if learner.traits.takes_action_features and event.eligible is not None:
        actions = list(event.eligible)
        is_own = is_own and event.action in learner.actions
    else:
        is_own = is_own and actions == list(learner.actions[: len(actions)])
    if is_own and learner.traits.explains and event.context:  # which the experiment's retention may have dropped
        own = _restore_decision(state, event, actions)
        why = await asyncio.to_thread(learner.explain, own)
        text = why.text.replace(f"Decision {own.id} ", f"Decision {event.number} ", 1)
        return _info(event.number, answer, text, why)
    return _info(event.number, answer, _describe(answer, event.number), None)


async def preview(
    state: ExperimentState,
    context: Any,
    eligible: list[ExperimentAction] | None = None,
    cost: Any = None,
    label_cost: float | None = None,
) -> ExplanationInfo:
    """Explain what the learner would decide now among the eligible actions; the state is unchanged."""
    row = state.to_rows([context])[0]
    learner = state.learner
    converted = convert_costs([cost], 1, learner)
    own = None if converted is None else converted[0]
    require_label_costs([label_cost], [slot.learner for slot in (state.slot, *state.shadows)])
    label_cost = label_cost if learner.takes_label_costs else None
    try:
        choice = learner.preview(row, eligible, own, label_cost)
    except (ValueError, TypeError, OverflowError) as error:
        raise invalid_request(str(error)) from None
    event = Decided.of(state.last_at, state.decisions + 1, row, choice, None, None)
    (answer,) = decision_answers([event], state)
    why = await asyncio.to_thread(learner.explain, choice) if learner.traits.explains else None
    distribution = await asyncio.to_thread(_draw_actions, learner.freeze(), row, eligible, own, label_cost)
    text = _describe(answer, event.number) if why is None else why.text
    for did, would in (("chose", "choose"), ("explored", "explore")):
        text = re.sub(rf"^Decision \d+ {did}\b", f"It would {would}", text)
    return msgspec.structs.replace(_info(None, answer, text, why), distribution=distribution, draws=DRAWS)


def _draw_actions(
    saved: Callable[[], bytes],
    row: list[Any],
    eligible: list[ExperimentAction] | None,
    cost: tuple[float, ...] | None,
    label_cost: float | None,
) -> dict[str, float]:
    """Shares of the actions that a copy of the learner takes in a context, drawn DRAWS times."""
    twin: ServedPolicy = from_bytes(saved())
    drawn = twin.preview_actions([row] * DRAWS, eligible=eligible, cost=cost, label_cost=label_cost)
    counts = np.bincount(drawn, minlength=len(twin.actions))
    return {str(action): int(count) / DRAWS for action, count in zip(twin.actions, counts, strict=True)}


def _info(decision: int | None, answer: Answer, text: str, why: Explanation | None) -> ExplanationInfo:
    data = None if why is None else {key: value for key, value in why.to_dict().items() if key != "text"}
    own = (answer.action, answer.explored, answer.probability, answer.estimates, answer.relevant)
    return ExplanationInfo(decision, *own, text, data, eligible=answer.eligible)


def _restore_decision(state: ExperimentState, event: Decided, actions: list[ExperimentAction]) -> Decision:
    """Restore the learner's own decision from the log, with the actions that its estimates are of."""
    restored = state.learner.restore_decision(
        state.slot.step(state.ordinal(event.number)),
        event.context,
        event.action,
        actions=actions,
        explored=event.explored,
        wants_reward=event.wants_reward,
        probability=event.probability,
        estimates=event.estimates,
        relevant=event.relevant,
        eligible=event.eligible,
        costs=event.costs,
        group=event.group,
    )
    restored.slate = None if event.many is None else event.many.slate
    return restored


def _describe(answer: Answer, number: int) -> str:
    """Describe a decision from its log entry alone."""
    chance = "" if answer.probability is None else f", with probability {answer.probability:.3g}"
    how = "to learn about it" if answer.explored else "as the best known action"
    how = "as the control group does" if answer.group == CONTROL and answer.explored else how
    lines = [f"Decision {number} chose {answer.action!r} {how}{chance}."]
    for action, estimate in sorted((answer.estimates or {}).items(), key=lambda entry: -entry[1]):
        features = (answer.relevant or {}).get(action)
        basis = f", from {' and '.join(features)}" if features else ""
        allowed = "" if answer.eligible is None or action in map(str, answer.eligible) else ", not eligible"
        lines.append(f"  {action!r}: {estimate:.3f}{basis}{allowed}")
    lines.append("The reward is wanted." if answer.wants_reward else "No reward was asked for.")
    return "\n".join(lines)
