"""An experiment without HTTP: whatever is asked of it, its log gives the same state again, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import releaf
from releaf.evaluate.offpolicy import effective_rows, snips
from releaf.service import memory, policies
from releaf.service.events import AnyEvent, Decided, Expired, Promoted, Rewarded, decode_page, encode_page
from releaf.service.experiment import FORMER, Experiment, NotWaiting
from releaf.service.messages import NewExperiment, PolicySpec, RewardRules
from releaf.service.problems import Problem
from releaf.service.series import MOST_POINTS
from releaf.streams import Log

WITHIN = 20.0  # seconds until the deadline
POLICIES = {
    "AdaptiveReleaf": PolicySpec(name="AdaptiveReleaf", parameters={"seed": 1, "least_probability": 0.1}),
    "with a budget": PolicySpec(name="AdaptiveReleaf", parameters={"seed": 1, "label_budget": 20, "max_pending": 6}),
    "Releaf": PolicySpec(name="Releaf", parameters={"seed": 2, "max_pending": 7}),
    "LinUCB": PolicySpec(name="LinUCB", parameters={"seed": 3}),
    "EpsilonGreedy": PolicySpec(name="EpsilonGreedy", parameters={"seed": 4, "epsilon": 0.3, "max_pending": 5}),
    "all actions": PolicySpec(name="Releaf", parameters={"seed": 5, "observe": "all-actions"}),
}
FEATURES: dict[str, list[Any]] = {
    "numbers": ["age", "dose"],
    "kinds": [
        {"name": "income", "kind": "quantile", "size": 8},
        {"name": "town", "kind": "categorical", "values": ["Ulm", "Bern", 3]},
        {"name": "smokes", "kind": "boolean"},
    ],
    "missing": [
        {"name": "age", "kind": "continuous", "low": 0, "high": 120, "missing": True},
        {"name": "income", "kind": "quantile", "missing": True},
        {"name": "town", "kind": "categorical", "values": ["Ulm", "Bern"], "missing": True},
        {"name": "smokes", "kind": "boolean", "missing": True},
    ],
}
DEFAULTS = {"default": 0.25, "dropped": None}


def new_experiment(
    policy: PolicySpec, features: Any = 2, default: Any = None, actions: Any = ("a", "b", 3)
) -> Experiment:
    wants_all = policy.parameters.get("observe") == "all-actions"
    given = {str(action): default for action in actions} if wants_all and default is not None else default
    rules = RewardRules(within_seconds=WITHIN, default=given)
    spec = NewExperiment(name="x", actions=list(actions), features=features, policy=policy, rewards=rules)
    return Experiment(spec, policies.new_learner(spec))


def value_of(feature: Any, draw: int) -> Any:
    """A value that the feature takes, from any whole number."""
    unit = draw % 97 / 97
    if feature.missing and draw % 5 == 0:
        return None
    match feature.kind:
        case "continuous":
            return feature.low + unit * (feature.high - feature.low)
        case "quantile":
            return draw % 1000 - 500
        case "categorical":
            return feature.values[draw % len(feature.values)]
    return draw % 2 == 0


class Life:
    """An experiment that is asked things, each of which is put down in a log as the service does."""

    def __init__(self, experiment: Experiment) -> None:
        self.state, self.log, self.now = experiment, [], 1_000.0
        self.log: list[AnyEvent] = []
        self.first = memory.as_bytes(experiment)
        self.snapshots = [(0, self.first)]
        self.refused = 0

    def context(self, draw: int) -> Any:
        schema = self.state.learner.schema
        values = [value_of(feature, draw * (place + 3)) for place, feature in enumerate(schema.features)]
        return dict(zip(schema.names, values, strict=True)) if draw % 3 == 0 else values

    def reward(self, decision: int, draw: int) -> Any:
        if not self.state.learner.wants_all:
            return draw % 11 / 10
        stayed = self.state.actions_at(decision)
        return {
            str(action): (draw + place) % 3 / 2 for place, action in enumerate(stayed) if action in self.alive(decision)
        }

    def alive(self, decision: int) -> list[Any]:
        """Actions of a decision that were never retired since."""
        later = [actions for since, actions in self.state.actions_since if since >= decision]
        return [action for action in self.state.actions_at(decision) if all(action in actions for actions in later)]

    def ask(self, kind: str, draw: int) -> None:
        """One request; where it is refused, nothing may have changed."""
        self.now += draw % 4
        before = memory.as_bytes(self.state)
        try:
            made = list(getattr(self, f"do_{kind}")(draw))
        except (Problem, NotWaiting):
            self.refused += 1
            assert memory.as_bytes(self.state) == before
            return
        self.state.take_outcomes()
        self.log += made

    def do_decide(self, draw: int) -> Iterator[AnyEvent]:
        yield from self.state.decide([self.context(draw)], [f"key {draw}" if draw % 2 else None], self.now)

    def do_decide_many(self, draw: int) -> Iterator[AnyEvent]:
        contexts = [self.context(draw + place) for place in range(draw % 5 + 1)]
        yield from self.state.decide(contexts, [None] * len(contexts), self.now)

    def do_decide_badly(self, draw: int) -> Iterator[AnyEvent]:
        bad = [["x"], [0.5] * 9, {"nobody": 1}, [object] * len(self.state.learner.schema)][draw % 4]
        yield from self.state.decide([self.context(draw), bad], [None, None], self.now)

    def do_reward(self, draw: int) -> Iterator[AnyEvent]:
        """Of any decision that waits, so rewards come late and out of order."""
        waiting = list(self.state.waiting)
        if waiting:
            decision = waiting[draw % len(waiting)]
            value = self.state.checked_reward(decision, self.reward(decision, draw))
            yield self.state.reward(decision, value, self.now)

    def do_reward_badly(self, draw: int) -> Iterator[AnyEvent]:
        decision = draw % (self.state.tally.decisions + 2)
        bad = [1.5, -1.0, [0.5], {"nobody": 1.0}, [0.1] * 40][draw % 5]
        yield self.state.reward(decision, self.state.checked_reward(decision, bad), self.now)

    def do_expire(self, draw: int) -> Iterator[AnyEvent]:
        self.now += draw % 30
        event = self.state.expire(self.now)
        if event is not None:
            yield event

    def do_add_action(self, draw: int) -> Iterator[AnyEvent]:
        yield self.state.add_action(["a", "b", 3, "c", "d"][draw % 5], self.now)

    def do_remove_action(self, draw: int) -> Iterator[AnyEvent]:
        yield self.state.remove_action(["a", "b", 3, "c", "d"][draw % 5], self.now)

    def do_add_shadow(self, draw: int) -> Iterator[AnyEvent]:
        policy = list(POLICIES.values())[draw % len(POLICIES)]
        learner = policies.build(policy, self.state.learner.actions, self.state.learner.schema)
        yield self.state.add_shadow(["one", "two", FORMER][draw % 3], policy, learner, self.now)

    def do_remove_shadow(self, draw: int) -> Iterator[AnyEvent]:
        yield self.state.remove_shadow(["one", "two", FORMER][draw % 3], self.now)

    def do_promote(self, draw: int) -> Iterator[AnyEvent]:
        yield self.state.promote(["one", "two", FORMER][draw % 3], self.now)

    def do_retire(self, draw: int) -> Iterator[AnyEvent]:
        if draw % 7 == 0:
            yield self.state.retire(self.now)

    def do_snapshot(self, draw: int) -> Iterator[AnyEvent]:
        self.snapshots.append((len(self.log), memory.as_bytes(self.state)))
        yield from ()

    def replayed(self, after: int = 0, snapshot: bytes | None = None) -> Experiment:
        """What the log makes of a snapshot, as a service that starts reads them."""
        state = memory.from_bytes(snapshot or self.first)
        for event in decode_page(encode_page(self.log[after:])):
            state.apply(event)
        return state


COMMON = ("decide", "decide_many", "reward", "reward", "expire")
RARE = tuple(name[3:] for name in vars(Life) if name.startswith("do_"))
REQUESTS = st.lists(st.tuples(st.sampled_from(COMMON * 3 + RARE), st.integers(0, 10_000)), min_size=5, max_size=60)
thorough = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("default", DEFAULTS)
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("policy", POLICIES)
@thorough
@given(requests=REQUESTS)
def test_the_log_gives_the_same_state_again(policy: str, features: str, default: str, requests: list[Any]) -> None:
    life = Life(new_experiment(POLICIES[policy], FEATURES[features], DEFAULTS[default]))
    for kind, draw in requests:
        life.ask(kind, draw)

    lived = memory.as_bytes(life.state)
    replayed = life.replayed()
    assert memory.as_bytes(replayed) == lived
    assert replayed.diverged is None
    for after, snapshot in life.snapshots:
        assert memory.as_bytes(life.replayed(after, snapshot)) == lived
