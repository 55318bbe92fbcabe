"""Merging of learners: the same result in any order and grouping."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_releaf import GRAIN

import releaf
from releaf.core.releaf import cells, merging
from releaf.core.releaf.state import OBSERVED
from releaf.policies.partitioned import PartitionedPolicy

SCHEMAS: dict[str, Any] = {
    "numbers": 4,
    "mixed": {
        "x": releaf.Continuous(0, 1),
        "gone": releaf.Continuous(0, 1, missing=True),
        "kind": releaf.Categorical("a", "b", "c"),
        "sure": releaf.Boolean(),
    },
}


def learner(kind: str = "numbers", policy: Any = releaf.Releaf, **given: Any) -> Any:
    return policy(3, SCHEMAS[kind], **{"seed": 7, "rho": 2.0, **given})


def contexts_of(kind: str, draw: np.random.Generator, count: int) -> Any:
    if kind == "numbers":
        return draw.random((count, 4)) ** draw.uniform(0.5, 3.0)
    gone = [None if draw.random() < 0.3 else draw.random() for _ in range(count)]
    kinds, sure = draw.choice(["a", "b", "c"], count).tolist(), (draw.random(count) < 0.5).tolist()
    return [list(row) for row in zip(draw.random(count).tolist(), gone, kinds, sure, strict=True)]


def part(seed: int, kind: str = "numbers", most: int = 600, **given: Any) -> Any:
    """A learner that lived through some cases of its own."""
    draw = np.random.default_rng(seed)
    made = learner(kind, **given)
    count = int(draw.integers(1, most))
    made.replay(contexts_of(kind, draw, count), draw.random((count, 3)))
    return made


def knowledge(of: PartitionedPolicy) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in of._arrays().items()}


@pytest.mark.parametrize("kind", list(SCHEMAS))
@pytest.mark.parametrize("limit", [cells.DENSE_LIMIT, 0], ids=["dense", "hashed"])
@pytest.mark.parametrize("policy", [releaf.Releaf, releaf.GreedyReleaf])
def test_any_order_and_any_groups_give_the_same_bits(kind: str, limit: int, policy: Any) -> None:
    parts = [part(seed, kind, policy=policy) for seed in range(4)]
    if limit == 0:
        parts = [_hashed(one) for one in parts]
    a, b, c, d = parts
    expected = knowledge(a.merge(b).merge(c).merge(d))
    assert knowledge(a.merge(b.merge(c.merge(d)))) == expected
    assert knowledge(a.merge(b).merge(c.merge(d))) == expected
    for one, two, three, four in itertools.permutations(parts):
        assert knowledge(one.merge(two).merge(three).merge(four)) == expected


def _hashed(one: Any) -> Any:
    """The same knowledge with cells in a hash table."""
    from dataclasses import replace

    settings_ = replace(one._engine.settings, dense_limit=0)
    one._use(
        merging.build_engine(settings_, len(one.actions), one.seed, merging.extract_statistics(one._engine, one.seed))
    )
    return one


@given(
    st.lists(st.integers(0, 1000), min_size=3, max_size=3),
    st.sampled_from(["explored", "always", "all-actions", "labels"]),
)
@settings(max_examples=15, deadline=None)
def test_random_parts_add_up(seeds: list[int], observe: str) -> None:
    a, b, c = (part(seed, most=300, observe=observe) for seed in seeds)
    assert knowledge(a.merge(b).merge(c)) == knowledge(c.merge(a.merge(b))) == knowledge(b.merge(c).merge(a))


@pytest.mark.parametrize("kind", list(SCHEMAS))
def test_a_learner_that_knows_nothing_adds_nothing(kind: str) -> None:
    one, nothing = part(3, kind), learner(kind)
    both = one.merge(nothing)
    assert knowledge(both) == knowledge(nothing.merge(one)) == knowledge(both.merge(nothing))
    assert both.steps == one.steps
    assert both.observations == one.observations
    assert np.array_equal(both.relevance(), one.relevance())
    names = one.schema.names
    for name in names:
        mine, theirs = both.partition(name), one.partition(name)
        assert [(i.low, i.high, i.level) for i in mine if i.low == i.low] == [
            (i.low, i.high, i.level) for i in theirs if i.low == i.low
        ]
    draw = np.random.default_rng(9)
    tried = contexts_of(kind, draw, 200)
    assert np.array_equal(both.estimate(tried), one.estimate(tried))


def test_what_knows_nothing_leaves_all_further_decisions_as_they_would_have_been() -> None:
    """Also where the latest arrival fills an interval, which then splits before the next decision."""
    draw = np.random.default_rng(4)
    further, rewards = draw.random((80, 4)), draw.random((80, 3))
    for seed in range(25):
        one = part(seed, most=120)
        both = one.merge(learner())
        lived, expected = both.replay(further, rewards), one.replay(further, rewards)
        assert np.array_equal(lived.actions, expected.actions)
        assert np.array_equal(lived.explored, expected.explored)
        assert knowledge(both.merge(learner())) == knowledge(one.merge(learner()))


def test_parts_of_the_same_partition_know_what_one_learner_of_all_cases_would() -> None:
    """Counts and sums are those of all cases, where no interval splits any more."""
    draw = np.random.default_rng(1)
    contexts, rewards = draw.random((900, 4)), np.floor(draw.random((900, 3)) / GRAIN) * GRAIN
    parts = [learner(rho=60.0, observe="always", control_divisor=1e9) for _ in range(3)]
    expected: dict[tuple[int, ...], tuple[int, float]] = {}
    for number, one in enumerate(parts):
        own, earned = contexts[number::3], rewards[number::3]
        actions = one.replay(own, earned).actions
        for row in range(1, len(own)):  # the first arrival splits each feature in two, and after it nothing splits
            for pair, (i, j) in enumerate(itertools.combinations(range(4), 2)):
                key = (pair, int(own[row, i] > 0.5), int(own[row, j] > 0.5), int(actions[row]))
                count, total = expected.get(key, (0, 0.0))
                expected[key] = (count + 1, total + float(earned[row, actions[row]]))
    whole = parts[0].merge(parts[1]).merge(parts[2])
    rows = merging.extract_statistics(whole._engine, whole.seed).rows
    found = {
        (int(pair), *places.tolist(), action): (int(counts[action]), float(sums[action]))
        for pair, places, counts, sums in zip(*rows, strict=True)
        for action in np.flatnonzero(counts).tolist()
    }
    assert found == expected


class MeetingLock:
    """A lock whose holder waits, as soon as it has it, for someone to hold the other."""

    def __init__(self, meeting: threading.Barrier) -> None:
        self._lock, self._meeting = threading.RLock(), meeting

    def __enter__(self) -> None:
        self._lock.acquire()
        with suppress(threading.BrokenBarrierError):
            self._meeting.wait(1)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_two_threads_that_add_the_same_learners_the_other_way_round_do_not_wait_for_each_other() -> None:
    one, two = part(1), part(2)
    expected = knowledge(one.merge(two))
    meeting, sums = threading.Barrier(2), []
    one._lock, two._lock = MeetingLock(meeting), MeetingLock(meeting)
    threads = [
        threading.Thread(target=lambda pair=pair: sums.append(knowledge(pair[0].merge(pair[1]))), daemon=True)
        for pair in ((one, two), (two, one))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sums == [expected, expected]


def test_the_sum_has_room_for_as_many_decisions_as_the_roomier_of_both() -> None:
    roomy, other = part(1, max_pending=500), part(2, max_pending=40)
    assert roomy.merge(other).to_bytes() == other.merge(roomy).to_bytes()
    assert other.merge(roomy).max_pending == 500


# --- cells that are full ------------------------------------------------------------------------------------


def nearly_full(short_of: int) -> Any:
    """A learner all of whose cells lack so many rewards of being full, with a mean of a quarter."""
    made = part(3, observe="always", rho=60.0)
    state = made._engine.state
    state.counts[:] = state.clock[OBSERVED] = cells.MOST_COUNTED - short_of
    state.sums[:] = 0.25 * state.counts
    table = state.cells.reshape(-1, 4)
    table[:, 0], table[:, 1:] = cells.MOST_COUNTED - short_of, 0.25
    return made


@pytest.mark.parametrize("limit", [cells.DENSE_LIMIT, 0], ids=["dense", "hashed"])
def test_a_full_cell_takes_in_no_more_and_keeps_its_mean(limit: int) -> None:
    one = nearly_full(short_of=1)
    if limit == 0:
        one = _hashed(one)
    for _ in range(3):
        one.learn(one.decide([0.4] * 4), 1.0)
    counts, sums = one._engine.state.counts, one._engine.state.sums
    assert counts.min() >= 0
    filled = counts == cells.MOST_COUNTED
    assert filled.sum() == 6  # one cell for each pair of features
    assert np.array_equal(sums[filled], np.full(6, 0.25 * (cells.MOST_COUNTED - 1) + 1.0))
    assert releaf.from_bytes(one.to_bytes()).observations == one.observations


def test_cells_that_are_more_than_full_together_have_the_mean_of_both() -> None:
    both = nearly_full(short_of=1000).merge(nearly_full(short_of=1000))
    rows = merging.extract_statistics(both._engine, both.seed).rows
    assert len(rows.tuples)
    assert (rows.counts == cells.MOST_COUNTED).all()
    assert np.allclose(rows.sums / rows.counts, 0.25, rtol=0, atol=GRAIN)


def test_an_interval_that_one_has_split_is_split_in_the_sum_and_what_the_other_saw_there_is_left_behind() -> None:
    coarse, fine = learner(), part(5)
    coarse.decide([0.3, 0.6, 0.9, 0.1])
    coarse.learn(1, 1.0)
    both = coarse.merge(fine)
    assert [i[:3] for i in both.partition(0)] == [i[:3] for i in fine.partition(0)]
    assert both.observations == fine.observations + 1
    same = fine.merge(learner())
    assert np.array_equal(both._engine.state.counts, same._engine.state.counts)


def test_the_sum_goes_on_learning_and_can_be_saved(tmp_path: Any) -> None:
    both = part(1).merge(part(2))
    both.save(tmp_path / "both.releaf")
    again = releaf.load(tmp_path / "both.releaf")
    draw = np.random.default_rng(0)
    contexts, rewards = draw.random((500, 4)), draw.random((500, 3))
    first, second = both.replay(contexts, rewards), again.replay(contexts, rewards)
    assert np.array_equal(first.actions, second.actions)
    assert knowledge(both) == knowledge(again)


def test_both_parts_stay_as_they_are() -> None:
    one, two = part(1), part(2)
    before = knowledge(one), knowledge(two)
    one.merge(two)
    assert (knowledge(one), knowledge(two)) == before


def test_decisions_that_wait_stay_with_their_learner() -> None:
    one = part(1)
    choice = next(c for c in (one.decide(row) for row in np.random.default_rng(0).random((500, 4))) if c.wants_reward)
    both = one.merge(part(2))
    assert both.pending == 0
    with pytest.raises(ValueError, match="is not pending"):
        both.learn(choice.id, 1.0)
    one.learn(choice, 1.0)


def test_different_configurations_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"different rho can\'t be merged: 2\.0 and 3\.0"):
        part(1).merge(part(2, rho=3.0))
    with pytest.raises(TypeError, match="must be a Releaf too, got GreedyReleaf"):
        part(1).merge(part(2, policy=releaf.GreedyReleaf))


def test_different_quantiles_are_refused() -> None:
    one, two = (releaf.Releaf(2, {"x": releaf.Quantile(), "y": releaf.Quantile()}, seed=0) for _ in range(2))
    one.decide([1.0, 2.0])
    with pytest.raises(ValueError, match="different quantiles"):
        one.merge(two)


def test_learners_of_other_kinds_say_that_they_do_not_add_up() -> None:
    with pytest.raises(TypeError, match="LinUCB can't be merged"):
        releaf.LinUCB(2, 2).merge(releaf.LinUCB(2, 2))
