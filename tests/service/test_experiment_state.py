"""State of an experiment, without HTTP: a replay of the log gives the same state, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import releaf
from releaf.evaluate import effective_rows, snips
from releaf.service.errors import ApiError
from releaf.service.experiments import learner_factory
from releaf.service.experiments.pending_decisions import NotPending
from releaf.service.experiments.replayed_state import FORMER
from releaf.service.experiments.serialization import EXPERIMENT_FORMAT, from_bytes
from releaf.service.experiments.state import ExperimentState
from releaf.service.log.events import AnyEvent, Decided, Expired, Promoted, Rewarded, decode_page, encode_page
from releaf.service.messages import NewExperiment, PolicySpec, RewardRules
from releaf.streams import Log

ACTIONS: tuple[str | int, ...] = ("a", "b", 3, "c", "d")
SURE = ("snapshot", "retire")  # what is never refused
WITHIN = 20.0  # seconds until the deadline
POLICIES = {
    "AdaptiveReleaf": PolicySpec(name="AdaptiveReleaf", parameters={"seed": 1, "least_probability": 0.1}),
    "with a budget": PolicySpec(name="AdaptiveReleaf", parameters={"seed": 1, "label_budget": 20, "max_pending": 6}),
    "Releaf": PolicySpec(name="Releaf", parameters={"seed": 2, "max_pending": 7}),
    "LinUCB": PolicySpec(name="LinUCB", parameters={"seed": 3}),
    "EpsilonGreedy": PolicySpec(name="EpsilonGreedy", parameters={"seed": 4, "epsilon": 0.3}),
    "few may wait": PolicySpec(name="EpsilonGreedy", parameters={"seed": 4, "epsilon": 0.3, "max_pending": 5}),
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
) -> ExperimentState:
    wants_all = policy.parameters.get("observe") == "all-actions"
    given = {str(action): default for action in actions} if wants_all and default is not None else default
    rules = RewardRules(within_seconds=WITHIN, default=given)
    spec = NewExperiment(name="x", actions=list(actions), features=features, policy=policy, rewards=rules)
    return ExperimentState(spec, learner_factory.make_learner(spec))


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

    def __init__(self, experiment: ExperimentState) -> None:
        self.state, self.now = experiment, 1_000.0
        self.log: list[AnyEvent] = []
        self.first = EXPERIMENT_FORMAT.to_bytes(experiment)
        self.snapshots = [(0, self.first)]

    def context(self, draw: int) -> Any:
        schema = self.state.learner.schema
        values = [value_of(feature, draw * (place + 3)) for place, feature in enumerate(schema.features)]
        return dict(zip(schema.names, values, strict=True)) if draw % 3 == 0 else values

    def reward(self, decision: int, draw: int) -> Any:
        if not self.state.learner.wants_all:
            return draw % 11 / 10
        later = [actions for since, actions in self.state.actions.versions if since >= decision]
        stayed = [action for action in self.state.actions.at(decision) if all(action in actions for actions in later)]
        return {str(action): (draw + place) % 3 / 2 for place, action in enumerate(stayed)}

    def ask(self, kind: str, draw: int) -> None:
        """One request; where it is refused, nothing may have changed."""
        self.now += draw % 4
        before = EXPERIMENT_FORMAT.to_bytes(self.state) if kind not in SURE else b""
        try:
            made = list(getattr(self, f"do_{kind}")(draw))
        except (ApiError, NotPending):
            assert EXPERIMENT_FORMAT.to_bytes(self.state) == before
            return
        self.state.take_outcomes()
        self.log += made

    def do_decide(self, draw: int) -> Iterator[AnyEvent]:
        yield from self.state.decide([self.context(draw)], [f"key {draw}" if draw % 2 else None], self.now)

    def do_decide_many(self, draw: int) -> Iterator[AnyEvent]:
        contexts = [self.context(draw + place) for place in range(draw % 5 + 1)]
        yield from self.state.decide(contexts, [None] * len(contexts), self.now)

    def do_decide_among(self, draw: int) -> Iterator[AnyEvent]:
        """Some of the actions are eligible, others for each context; now and then an unknown one."""
        contexts = [self.context(draw + place) for place in range(draw % 4 + 1)]
        actions = self.state.actions.at(self.state.counters.decisions + 1)
        sets = [actions[place % len(actions) :: 1 + draw % 3] for place in range(len(contexts))]
        allowed = [None if draw % 5 == place else chosen for place, chosen in enumerate(sets)]
        if draw % 11 == 0:
            allowed[-1] = ["nobody"]
        yield from self.state.decide(contexts, [None] * len(contexts), self.now, allowed)

    def do_decide_badly(self, draw: int) -> Iterator[AnyEvent]:
        bad = [["x"], [0.5] * 9, {"nobody": 1}, [object] * len(self.state.learner.schema)][draw % 4]
        yield from self.state.decide([self.context(draw), bad], [None, None], self.now)

    def do_reward(self, draw: int) -> Iterator[AnyEvent]:
        """Of any decision that waits, so rewards come late and out of order."""
        waiting = list(self.state.pending)
        if waiting:
            decision = waiting[draw % len(waiting)]
            value = self.state.validate_reward(decision, self.reward(decision, draw), self.now)
            yield self.state.reward(decision, value, self.now)

    def do_reward_badly(self, draw: int) -> Iterator[AnyEvent]:
        decision = draw % (self.state.counters.decisions + 2)
        bad = [1.5, -1.0, [0.5], {"nobody": 1.0}, [0.1] * 40][draw % 5]
        yield self.state.reward(decision, self.state.validate_reward(decision, bad, self.now), self.now)

    def do_expire(self, draw: int) -> Iterator[AnyEvent]:
        self.now += draw % 30
        event = self.state.expire(self.now)
        if event is not None:
            yield event

    def do_add_action(self, draw: int) -> Iterator[AnyEvent]:
        yield self.state.add_action(ACTIONS[draw % 5], None, self.now)

    def do_remove_action(self, draw: int) -> Iterator[AnyEvent]:
        yield self.state.remove_action(ACTIONS[draw % 5], self.now)

    def do_add_shadow(self, draw: int) -> Iterator[AnyEvent]:
        policy = list(POLICIES.values())[draw % len(POLICIES)]
        learner = learner_factory.build_policy(policy, self.state.learner.actions, self.state.learner.schema)
        yield self.state.add_shadow(["one", "two", FORMER][draw % 3], policy, learner, self.now)

    def do_remove_shadow(self, draw: int) -> Iterator[AnyEvent]:
        yield self.state.remove_shadow(["one", "two", FORMER][draw % 3], self.now)

    def do_promote(self, draw: int) -> Iterator[AnyEvent]:
        yield self.state.promote(["one", "two", FORMER][draw % 3], self.now, force=True)

    def do_retire(self, draw: int) -> Iterator[AnyEvent]:
        if draw % 7 == 0:
            yield self.state.retire(self.now)

    def do_snapshot(self, draw: int) -> Iterator[AnyEvent]:
        self.snapshots.append((len(self.log), EXPERIMENT_FORMAT.to_bytes(self.state)))
        yield from ()

    def replayed(self, after: int = 0, snapshot: bytes | None = None) -> ExperimentState:
        """What the log makes of a snapshot, as a service that starts reads them."""
        state = from_bytes(snapshot or self.first)
        for event in decode_page(encode_page(self.log[after:])):
            state.apply(event)
        return state


COMMON = ("decide", "decide_many", "decide_among", "reward", "reward", "expire")
RARE = tuple(name[3:] for name in vars(Life) if name.startswith("do_"))
REQUESTS = st.lists(st.tuples(st.sampled_from(COMMON * 2 + RARE), st.integers(0, 10_000)), min_size=10, max_size=50)
thorough = settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("default", DEFAULTS)
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("policy", POLICIES)
@thorough
@given(requests=REQUESTS)
def test_a_replay_of_the_log_gives_the_same_state(
    policy: str, features: str, default: str, requests: list[Any]
) -> None:
    life = Life(new_experiment(POLICIES[policy], FEATURES[features], DEFAULTS[default]))
    for kind, draw in requests:
        life.ask(kind, draw)

    lived = EXPERIMENT_FORMAT.to_bytes(life.state)
    replayed = life.replayed()
    assert EXPERIMENT_FORMAT.to_bytes(replayed) == lived
    assert replayed.diverged is None
    for after, snapshot in life.snapshots:
        assert EXPERIMENT_FORMAT.to_bytes(life.replayed(after, snapshot)) == lived
    require_consistent(life)


def require_consistent(life: Life) -> None:
    """The counts and the series are sums over the log, each decision is waiting or has come to one end."""
    counters, series = life.state.counters, life.state.series
    decided = [event for event in life.log if isinstance(event, Decided)]
    rewarded = [event.decision for event in life.log if isinstance(event, Rewarded)]
    expired = [number for event in life.log if isinstance(event, Expired) for number in event.decisions]
    assert [event.number for event in decided] == list(range(1, counters.decisions + 1))
    assert (
        counters.explored == sum(event.explored for event in decided) == sum(point.explored for point in series.points)
    )
    asked = {event.number for event in decided if event.wants_reward}
    assert counters.asked == len(asked) == sum(point.asked for point in series.points)
    assert counters.rewards == len(rewarded) == len(set(rewarded))
    assert len({*rewarded, *expired}) == len(rewarded) + len(expired)
    assert asked >= {*rewarded, *expired, *life.state.pending}
    assert counters.rewards + counters.defaults + counters.dropped + len(life.state.pending) == len(asked)
    assert life.state.unaccounted() == 0
    for slot in (life.state.slot, *life.state.shadows):  # no learner waits for what can't come
        waiting = {slot.step(life.state.ordinal(number)) for number in life.state.pending}
        assert {number for number in slot.learner._pending if number > slot.step(slot.since)} <= waiting  # type: ignore[attr-defined]
    assert not {*rewarded, *expired} & set(life.state.pending)
    assert sum(point.rewards for point in series.points) == counters.rewards + counters.defaults
    assert sum(point.reward_sum for point in series.points) == pytest.approx(counters.reward_sum)


FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | FINITE | st.sampled_from([0, 1, 0.5])
VALUES = NUMBERS | st.booleans() | st.none() | st.sampled_from(["Ulm", "Bern", 3]) | st.text(max_size=5)
CONTEXTS = st.lists(st.lists(VALUES, min_size=2, max_size=4) | st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
REWARDS = NUMBERS | st.lists(NUMBERS, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "3", "x"]), NUMBERS)


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("policy", ["AdaptiveReleaf", "EpsilonGreedy", "all actions"])
@settings(thorough, max_examples=15)
@given(batches=st.lists(CONTEXTS.filter(len), min_size=1, max_size=3), rewards=st.lists(REWARDS, max_size=4))
def test_any_input_is_accepted_or_rejected_with_an_api_error(
    policy: str, features: str, batches: list[Any], rewards: list[Any]
) -> None:
    """No error but an ApiError: any other would make the service recover its state from the log."""
    life = Life(new_experiment(POLICIES[policy], FEATURES[features]))
    for contexts in [*batches, batches[0][:1]]:
        before = EXPERIMENT_FORMAT.to_bytes(life.state)
        try:
            life.log += life.state.decide(contexts, [None] * len(contexts), life.now)
        except ApiError:
            assert EXPERIMENT_FORMAT.to_bytes(life.state) == before
    for decision, reward in zip(list(life.state.pending), rewards, strict=False):
        before = EXPERIMENT_FORMAT.to_bytes(life.state)
        try:
            value = life.state.validate_reward(decision, reward, 0.0)
        except ApiError:
            assert EXPERIMENT_FORMAT.to_bytes(life.state) == before
        else:
            life.log.append(life.state.reward(decision, value, life.now))
    assert EXPERIMENT_FORMAT.to_bytes(life.replayed()) == EXPERIMENT_FORMAT.to_bytes(life.state)


@pytest.mark.parametrize("policy", ["AdaptiveReleaf", "LinUCB", "Releaf"])
def test_a_replayed_learner_equals_one_that_never_stopped(policy: str) -> None:
    """Beside the experiment a learner lives the same life at home, with no service around it."""
    spec = PolicySpec(name=policy, parameters={"seed": 9})
    life, home = Life(new_experiment(spec)), getattr(releaf, policy)(["a", "b", 3], 2, seed=9)
    for step in range(150):
        life.ask("decide", step * 2)
        choice = home.decide(life.log[-1].context)  # type: ignore[union-attr]
        if choice.wants_reward and step % 3:
            life.now += 1
            event = life.state.reward(choice.id, life.state.validate_reward(choice.id, step % 11 / 10, 0.0), life.now)
            life.log.append(event)
            home.learn(choice, step % 11 / 10)
    assert _knowledge(life.replayed().learner) == _knowledge(life.state.learner) == _knowledge(home)


def _knowledge(learner: Any) -> list[Any]:
    arrays = {**learner._learnt_arrays(), "steps": np.array(learner.steps), "pending": np.array(learner.pending)}
    return [(name, array.tobytes()) for name, array in sorted(arrays.items())]


def test_a_replay_that_chooses_another_action_is_detected() -> None:
    life = Life(new_experiment(POLICIES["LinUCB"]))
    for draw in range(20):
        life.ask("decide", draw)
    altered = life.log[11]
    assert isinstance(altered, Decided)
    altered.action = next(action for action in ("a", "b") if action != altered.action)
    assert life.replayed().diverged == 12


# --- shadows ------------------------------------------------------------------------------------------------


def with_shadow(policy: str, shadow: str, steps: int, every: int = 1) -> Life:
    """A life in which the reward of an action depends on the context; some rewards never come."""
    life = Life(new_experiment(POLICIES[policy], 2))
    learner = learner_factory.build_policy(POLICIES[shadow], life.state.learner.actions, life.state.learner.schema)
    life.log.append(life.state.add_shadow("one", POLICIES[shadow], learner, life.now))
    go_on(life, steps, every)
    return life


def go_on(life: Life, steps: int, every: int = 1) -> None:
    rng = np.random.default_rng(steps)
    for context in rng.random((steps, 2)).tolist():
        life.now += 0.01
        (event,) = life.state.decide([context], [None], life.now)
        life.log.append(event)
        if event.wants_reward and event.number % every == 0:
            reward = float(rng.random() < (0.9 if (context[0] > 0.5) == (event.action == "a") else 0.2))
            life.log.append(life.state.reward(event.number, reward, life.now))


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize(("policy", "shadow"), [("EpsilonGreedy", "LinUCB"), ("AdaptiveReleaf", "EpsilonGreedy")])
def test_the_value_of_a_shadow_equals_the_snips_estimate_of_the_log(policy: str, shadow: str, every: int) -> None:
    life = with_shadow(policy, shadow, 400, every)
    life.now += WITHIN
    life.ask("expire", 0)  # those without a reward are dropped: until then none after them counts
    rewards = {event.decision: event.reward for event in life.log if isinstance(event, Rewarded)}
    rows = [event for event in life.log if isinstance(event, Decided) and event.number in rewards]
    labels = list(life.state.learner.actions)
    log = Log(
        contexts=np.array([event.context for event in rows]),
        taken=np.array([labels.index(event.action) for event in rows]),
        rewards=np.array([rewards[event.number] for event in rows]),
        probabilities=np.array([event.probability for event in rows]),
        features=life.state.learner.schema,
        actions=tuple(labels),
    )
    chosen = np.array([labels.index((event.shadows or {})["one"]) for event in rows])
    direct, told = snips(log, chosen, interval="normal"), life.state.shadows[0].to_message()
    half = (direct.high - direct.value) * math.sqrt((len(log) - 1) / len(log))  # sums know the matched rows only
    assert told.value == pytest.approx(direct.value, rel=1e-12)
    estimate = life.state.shadows[0].estimate
    unknown = estimate.untested / estimate.seen  # any reward is possible there
    assert told.low == pytest.approx((1.0 - unknown) * (direct.value - half), rel=1e-9)
    assert told.high == pytest.approx((1.0 - unknown) * (direct.value + half) + unknown, rel=1e-9)
    assert told.matched == direct.matched
    assert told.effective == pytest.approx(effective_rows(log, chosen), rel=1e-12)


def test_a_promoted_shadow_keeps_its_state_and_the_former_policy_becomes_a_shadow() -> None:
    life = with_shadow("EpsilonGreedy", "LinUCB", 200)
    (shadow,), leader = life.state.shadows, life.state.slot
    promoted, former = shadow.learner.to_bytes(), leader.learner.to_bytes()
    life.ask("promote", 0)
    assert isinstance(life.log[-1], Promoted)
    assert life.state.learner.to_bytes() == promoted
    assert [seat.name for seat in life.state.shadows] == [FORMER]
    assert life.state.shadows[0].learner.to_bytes() == former
    assert life.state.shadows[0].to_message().decisions == 0
    go_on(life, 100)
    assert life.state.learner.steps == life.state.shadows[0].learner.steps == 300
    assert life.state.shadows[0].to_message().decisions == 100
    assert EXPERIMENT_FORMAT.to_bytes(life.replayed()) == EXPERIMENT_FORMAT.to_bytes(life.state)
    life.ask("promote", 2)  # and back
    assert life.state.slot.policy.name == "EpsilonGreedy"


def test_the_estimate_of_the_former_policy_ignores_choices_of_an_earlier_former_one() -> None:
    life = with_shadow("EpsilonGreedy", "LinUCB", 10)
    life.ask("promote", 0)
    go_on(life, 2, every=1000)  # these wait, and know what the first former policy would have done
    life.log.append(life.state.promote(FORMER, life.now, force=True))
    for number in list(life.state.pending):
        life.log.append(life.state.reward(number, 1.0, life.now))
    assert life.state.shadows[0].to_message().matched == 0


def test_a_shadow_built_for_other_actions_is_rejected() -> None:
    life = Life(new_experiment(POLICIES["LinUCB"]))
    learner = learner_factory.build_policy(POLICIES["LinUCB"], life.state.learner.actions, life.state.learner.schema)
    life.state.add_action("c", None, life.now)
    before = EXPERIMENT_FORMAT.to_bytes(life.state)
    with pytest.raises(ApiError, match="actions changed during this request"):
        life.state.add_shadow("one", POLICIES["LinUCB"], learner, life.now)
    assert EXPERIMENT_FORMAT.to_bytes(life.state) == before


@pytest.mark.parametrize("seed", range(3))
def test_a_shadow_without_overlap_has_no_value(seed: int) -> None:
    """AdaptiveReleaf soon takes one action alone: rewards on which both agree would tell of that one only."""
    state = _with_random_shadow({"name": "AdaptiveReleaf", "parameters": {"seed": seed}}, seed)
    told = state.shadows[0].to_message()
    assert told.overlap is not None
    assert told.overlap < 0.7
    assert not told.supported
    assert (told.value, told.low, told.high) == (None, None, None)


def test_the_confidence_interval_of_a_shadow_covers_its_true_value() -> None:
    held = 0
    for seed in range(8):
        state = _with_random_shadow({"name": "EpsilonGreedy", "parameters": {"epsilon": 0.3, "seed": seed}}, seed)
        told = state.shadows[0].to_message()
        assert told.supported
        assert told.low is not None
        assert told.high is not None
        held += told.low <= 0.5 <= told.high
    assert held >= 6  # of 95 % intervals


def _with_random_shadow(policy: dict[str, Any], seed: int) -> ExperimentState:
    """An action that earns 0.3 and one that earns 0.7; chance would earn 0.5."""
    import random

    spec = msgspec.convert({"name": "truth", "actions": ["a", "b"], "features": 2, "policy": policy}, NewExperiment)
    state = ExperimentState(spec, learner_factory.make_learner(spec))
    shadow = PolicySpec(name="Random", parameters={"seed": seed + 100})
    state.add_shadow("chance", shadow, learner_factory.build_policy(shadow, ("a", "b"), state.learner.schema), 1.0)
    draw = random.Random(seed)
    for _ in range(4000):
        (event,) = state.decide([[draw.random(), draw.random()]], [None], 1.0)
        if event.wants_reward:
            state.reward(event.number, float(draw.random() < (0.7 if event.action == "b" else 0.3)), 1.0)
    return state


def test_a_shadow_with_a_label_budget_is_rejected_if_the_policy_in_charge_asks_for_some_rewards_only() -> None:
    spec = msgspec.convert(
        {"name": "thrift", "actions": ["a", "b"], "features": 2, "policy": {"name": "Releaf"}}, NewExperiment
    )
    state = ExperimentState(spec, learner_factory.make_learner(spec))
    shadow = PolicySpec(name="AdaptiveReleaf", parameters={"label_budget": 50})
    with pytest.raises(ApiError, match="Leave the budget out"):
        state.add_shadow("s", shadow, learner_factory.build_policy(shadow, ("a", "b"), state.learner.schema), 1.0)


def test_a_reward_is_too_late_from_its_deadline_on_even_before_the_expired_event() -> None:
    given = {"name": "late", "actions": ["a", "b"], "features": 2, "rewards": {"within_seconds": 10.0}}
    spec = msgspec.convert(given, NewExperiment)
    state = ExperimentState(spec, learner_factory.make_learner(spec))
    state.decide([[0.5, 0.5]], [None], 100.0)
    assert state.validate_reward(1, 1.0, 109.0) == 1.0
    with pytest.raises(ApiError, match="too late") as refused:
        state.validate_reward(1, 1.0, 110.0)
    assert refused.value.status == 410


def test_snapshots_keep_the_field_names_of_released_versions() -> None:
    """Renaming an attribute must not make the snapshots of existing stores unreadable."""
    record = msgspec.msgpack.decode(EXPERIMENT_FORMAT.to_bytes(new_experiment(POLICIES["LinUCB"])))
    top = "spec last_at retired tally seat shadows actions gaps waiting keys series diverged retention"
    assert list(record) == [*top.split(), "has_requested_actions", "deferred", "cohorts", "receipt_parts"]
    names = ["decisions", "explored", "asked", "rewards", "defaults", "dropped", "discarded", "reward_sum", "spent"]
    assert list(record["tally"]) == names
    name, policy, since, offset, estimate, learner = record["seat"]
    assert (name, policy["name"], since, offset, type(learner)) == ("", "LinUCB", 0, 0, bytes)
    sums = ["seen", "matched", "untested", "w", "wr", "ww", "wwr", "wwrr"]
    assert list(estimate) == [*sums, "since", "agreed", "decisions", "refused", "paired", "unsettled"]
