"""Deferred decisions in the state of an experiment, and the keys by which their rewards find them."""

from __future__ import annotations

from releaf.service.experiments.idempotency import KEYS_KEPT, MOST_KEYS, IdempotencyKeys
from releaf.service.experiments.learner_factory import make_learner
from releaf.service.experiments.serialization import EXPERIMENT_FORMAT
from releaf.service.experiments.state import ExperimentState
from releaf.service.log.events import AnyEvent, Decided, Expired, decode_page, encode_page
from releaf.service.many_actions import ManyActions
from releaf.service.messages import NewExperiment, PolicySpec, RewardRules

ACTIONS = {"tea": [0.25], "cola": [0.75]}


def new_state() -> ExperimentState:
    spec = NewExperiment(
        name="menu",
        actions={},
        features=1,
        action_features=1,
        policy=PolicySpec("HybridLinUCB", {"seed": 0, "least_probability": 0.1}),
        rewards=RewardRules(within_seconds=10.0, default=0.0),
    )
    return ExperimentState(spec, make_learner(spec))


def decide(state: ExperimentState, at: float, is_deferred: bool) -> Decided:
    many = ManyActions(ACTIONS, is_ranked=True, is_deferred=is_deferred)
    (made,) = state.decide([[0.5]], [None], at, many=many)
    return made


def test_a_deferred_decision_that_is_not_activated_is_dropped_at_its_deadline() -> None:
    state = new_state()
    for is_deferred in (False, True, True):
        decide(state, 0.0, is_deferred)
    state.activate(3, 1.0)
    assert state.expire(10.0) == Expired(10.0, [1, 2, 3], [2])
    assert [(row.decision, row.outcome) for row in state.take_outcomes()] == [
        (1, "default"),
        (2, "dropped"),
        (3, "default"),
    ]
    assert (state.counters.defaults, state.counters.dropped, state.unaccounted()) == (2, 1, 0)


def test_a_held_reward_is_not_learnt_without_activation() -> None:
    state = new_state()
    decide(state, 0.0, True)
    before = state.learner.estimate([[0.5]]).tolist()
    state.reward(1, 1.0, 1.0)
    assert state.deferred == {1: 1.0}
    state.expire(10.0)
    assert state.learner.estimate([[0.5]]).tolist() == before
    assert not state.deferred


def test_a_replay_and_a_snapshot_know_deferred_decisions() -> None:
    state = new_state()
    replayed, events = copy_of(state), list[AnyEvent]()
    for number in range(1, 5):
        events.append(decide(state, 0.0, number > 1))
    events += [state.reward(1, 1.0, 1.0), state.reward(2, 0.5, 1.0), state.reward(3, 0.25, 1.0), state.activate(3, 2.0)]
    halfway = copy_of(state)
    assert halfway.deferred == {2: 0.5, 4: None}
    events += [state.activate(2, 3.0), Expired(10.0, [4], [4])]
    assert state.expire(10.0) == events[-1]
    halfway.activate(2, 3.0)
    halfway.expire(10.0)
    for event in decode_page(encode_page(events)):
        replayed.apply(event)
    assert state.counters.rewards == 3
    assert replayed.diverged is None
    assert len({EXPERIMENT_FORMAT.to_bytes(one) for one in (state, halfway, replayed)}) == 1


def copy_of(state: ExperimentState) -> ExperimentState:
    return EXPERIMENT_FORMAT.load(EXPERIMENT_FORMAT.to_bytes(state))


def test_the_log_has_the_probability_of_every_eligible_action() -> None:
    made = decide(new_state(), 0.0, False)
    assert made.many is not None
    assert made.many.chances is not None
    assert sum(made.many.chances) == 1.0
    assert made.eligible is not None
    assert made.many.chances[made.eligible.index(made.action)] == made.probability


def test_keys_of_pending_decisions_stay_known_up_to_a_limit() -> None:
    keys, extra = IdempotencyKeys(), 50
    for number in range(KEYS_KEPT + extra):
        keys[str(number)] = number
    keys.drop_oldest({20})
    assert len(keys) == KEYS_KEPT + extra - 20
    assert next(iter(keys)) == "20"
    keys.drop_oldest(())
    assert len(keys) == KEYS_KEPT
    for number in range(KEYS_KEPT + extra, MOST_KEYS + 200):
        keys[str(number)] = number
    keys.drop_oldest(range(2 * MOST_KEYS))
    assert len(keys) == MOST_KEYS
