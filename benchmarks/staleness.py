"""Regret and labels where replicas decide on a copy of the learner that is up to so many seconds old.

Ten minutes of traffic. The learner's copy goes out every ``age`` seconds; all decisions in between are taken without
the rewards of one another (``decide_many``), and the rewards that were asked for are learnt just before the next copy
goes out. So a decision is taken on a copy that is half the age old on average; with age 0 each reward is learnt before
the next decision. Regret is exact, against the best expected reward.

With several replicas each decides for its share of the contexts on a copy of its own, and sends a *delta*: a learner
that saw only the contexts and rewards of this time. The writer adds them with ``Releaf.merge``. A delta begins empty,
or with the intervals of the copy, in which nothing is known yet; and the writer splits the intervals that the sum has
made full before the next copy goes out, or leaves them as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import releaf
from benchmarks.measure import Finding, Say
from benchmarks.workload import Array
from releaf import streams
from releaf.core.releaf import merging, partition
from releaf.executors import Local
from releaf.policies.parameters import parameters_of

MINUTES = 10
AGES = (0, 1, 10, 60)  # seconds
SEEDS = {1_000: 3, 100: 4}  # at so many decisions a second
BUDGET = 2_000
STREAMS = ("steady", "change")
FRUGAL = f"AdaptiveReleaf, {BUDGET:,} labels"  # which has none left when the world changes
POLICIES = ("AdaptiveReleaf", FRUGAL, "Releaf", "LinUCB")
REPLICAS, MERGED_RATE, MERGED_AGES = 4, 100, (10, 60)
ONE, EMPTY, INTERVALS = "one learner", "deltas begin empty", "deltas begin with the intervals"
SPLITS = ", the writer splits"
DELTAS = (EMPTY, EMPTY + SPLITS, INTERVALS, INTERVALS + SPLITS)


class Case(NamedTuple):
    """One run."""

    stream: str
    rate: int
    policy: str
    age: int
    seed: int
    learns: str = ONE


class Outcome(NamedTuple):
    """What each decision of a run lost, and which of them asked for their reward or explored."""

    lost: Array
    asked: Array
    explored: Array


def run(say: Say) -> list[Finding]:
    cases = list(_cases())
    found: dict[Case, dict[str, Any]] = {}
    for done, (place, outcome) in enumerate(Local().map(outcome_of, cases), 1):
        found[cases[place]] = outcome
        say(f"staleness: {done} of {len(cases)} runs")
    together: dict[Case, list[dict[str, Any]]] = {}
    for case in cases:  # not in the order in which they ended
        together.setdefault(case._replace(seed=0), []).append(found[case])
    return [_finding(case, outcomes) for case, outcomes in together.items()]


def _cases() -> Iterator[Case]:
    """The long ones first."""
    for rate, seeds in SEEDS.items():
        for stream, seed in product(STREAMS, range(seeds)):
            told = [policy for policy in POLICIES if stream == "steady" or policy != FRUGAL]
            yield from (Case(stream, rate, policy, age, seed) for policy, age in product(told, AGES))
    for seed, age, learns in product(range(SEEDS[MERGED_RATE]), MERGED_AGES, DELTAS):
        yield Case("steady", MERGED_RATE, "Releaf", age, seed, learns)


def _finding(case: Case, outcomes: list[dict[str, Any]]) -> Finding:
    how = "" if case.learns == ONE else f", {REPLICAS} replicas, {case.learns}"
    what = f"staleness: {case.stream}, {case.rate:,}/s, {case.policy}{how}, {case.age} s old: regret of 1,000 decisions"
    detail: dict[str, Any] = case._asdict() | {"seeds": len(outcomes)}
    for name in ("regret", "regret_first_minute", "regret_last_minutes", "labels", "explored"):
        values = np.array([outcome[name] for outcome in outcomes])
        detail[name] = {"mean": float(values.mean()), "margin": _margin(values)}
    by_minute = np.mean([outcome["by_minute"] for outcome in outcomes], axis=0)
    detail["by_minute"] = [float(f"{lost:.4g}") for lost in by_minute]
    return Finding(what=what, value=detail["regret"]["mean"], unit="", detail=detail)


def _margin(values: Array) -> float | None:
    """Half of the 95 % interval of the mean; None where there are too few for one."""
    if len(values) < 3:
        return None
    return float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


# --- one run ------------------------------------------------------------------------------------------------


def outcome_of(case: Case) -> dict[str, Any]:
    stream = stream_of(case)
    learner = learner_of(case, stream)
    if case.learns != ONE:
        outcome = merged(learner, stream, case.rate * case.age, case.learns)
    elif case.age:
        outcome = stale(learner, stream, case.rate * case.age)
    else:
        trace = learner.replay(stream.contexts, stream.rewards)
        outcome = Outcome(_lost(stream, slice(None), trace.actions), trace.observed, trace.explored)
    by_minute = 1000 * outcome.lost.reshape(MINUTES, -1).mean(axis=1)
    return {
        "regret": 1000 * float(outcome.lost.mean()),
        "regret_first_minute": float(by_minute[0]),
        "regret_last_minutes": float(by_minute[-2:].mean()),
        "labels": int(outcome.asked.sum()),
        "explored": float(outcome.explored.mean()),
        "by_minute": by_minute.tolist(),
    }


def stream_of(case: Case) -> streams.Stream:
    """The paper's draft; or a world that is another one from the middle on."""
    steps = 60 * MINUTES * case.rate
    if case.stream == "steady":
        return streams.draft(steps, seed=case.seed)
    return streams.generate(steps, features=10, actions=4, noise=0.3, drift="abrupt", seed=case.seed)


def learner_of(case: Case, stream: streams.Stream) -> Any:
    name, _, budget = case.policy.partition(", ")
    further: dict[str, Any] = {"label_budget": BUDGET} if budget else {}
    if name == "AdaptiveReleaf" and case.stream == "change":
        further["forget"] = "auto"
    waiting = max(1, case.rate * case.age)
    return getattr(releaf, name)(stream.actions, stream.features, seed=case.seed, max_pending=waiting, **further)


def stale(learner: Any, stream: streams.Stream, length: int) -> Outcome:
    """All decisions of a while, then all their rewards."""
    parts = []
    for first in range(0, len(stream), length):
        rows = slice(first, first + length)
        choices = learner.decide_many(stream.contexts[rows])
        for choice, rewards in zip(choices, stream.rewards[rows], strict=True):
            if choice.wants_reward:
                learner.learn(choice, float(rewards[choice.index]))
        parts.append(_part(stream, rows, choices))
    return _joined(parts)


def merged(writer: Any, stream: streams.Stream, length: int, learns: str) -> Outcome:
    """The same with several replicas, whose deltas the writer adds to what it knows."""
    parts = []
    for first in range(0, len(stream), length):
        content, total = writer.to_bytes(), writer
        for replica in range(REPLICAS):
            rows = slice(first + replica, first + length, REPLICAS)
            deciding = releaf.from_bytes(content)
            deciding.set_random_state(first * REPLICAS + replica)  # else all replicas draw the same
            choices = deciding.decide_many(stream.contexts[rows])
            total = total.merge(_delta(writer, stream, rows, choices, learns.startswith(INTERVALS)))
            parts.append(_part(stream, rows, choices))
        writer = _split(total) if learns.endswith(SPLITS) else total
    return _joined(parts)


def _delta(writer: Any, stream: streams.Stream, rows: slice, choices: list[Any], intervals: bool) -> Any:
    """A learner that saw these contexts, and the rewards that were asked for."""
    delta = _outline(writer) if intervals else releaf.Releaf(writer.actions, writer.schema, **parameters_of(writer))
    arrived = delta.decide_many(stream.contexts[rows])  # counts them; what it would have done itself does not matter
    for here, choice, rewards in zip(arrived, choices, stream.rewards[rows], strict=True):
        if choice.wants_reward:
            delta._learn(here._context, here.id, choice.index, float(rewards[choice.index]))
    return delta


def _outline(writer: Any) -> Any:
    """A learner with the intervals of another one, in which nothing was seen."""
    known = merging.extract_statistics(writer._engine, writer.seed)
    return writer.with_statistics(_nothing(known, known.leaves), writer.actions)


def _split(writer: Any) -> Any:
    """The learner with those of its intervals split that are full: adding finer ones to them does it."""
    known = merging.extract_statistics(writer._engine, writer.seed)
    while any((leaves.arrivals >= _full_at(writer, leaves)).any() for leaves in known.leaves):
        finer = tuple(_halved(leaves, leaves.arrivals >= _full_at(writer, leaves)) for leaves in known.leaves)
        known = merging.combine(known, _nothing(known, finer))
    return writer.with_statistics(known, writer.actions)


def _full_at(writer: Any, leaves: merging.Leaves) -> Array:
    """How many arrivals fill each interval."""
    level = partition.top_level(2) - np.log2(leaves.widths).astype(int)
    full: Array = writer._engine.state.split_at[level]
    return full


def _halved(leaves: merging.Leaves, full: Array) -> merging.Leaves:
    half = leaves.widths // 2
    starts = np.concatenate([leaves.starts, (leaves.starts + half)[full]])
    widths = np.concatenate([np.where(full, half, leaves.widths), half[full]])
    order = np.argsort(starts)
    return merging.Leaves(starts[order], widths[order], np.zeros(len(starts), dtype=np.int64))


def _nothing(like: merging.SufficientStatistics, leaves: tuple[merging.Leaves, ...]) -> merging.SufficientStatistics:
    """That there are these intervals, and no more."""
    empty = tuple(part._replace(arrivals=np.zeros_like(part.arrivals)) for part in leaves)
    rows = merging.Rows(*(part[:0] for part in like.rows))
    relevance, added_at, clock = (np.zeros_like(part) for part in (like.relevance, like.added_at, like.clock))
    return merging.SufficientStatistics(empty, rows, relevance, added_at, clock, np.uint64(0))


def _part(stream: streams.Stream, rows: slice, choices: list[Any]) -> tuple[Array, Outcome]:
    taken = np.array([choice.index for choice in choices])
    asked, explored = (np.array([getattr(c, name) for c in choices]) for name in ("wants_reward", "explored"))
    return np.arange(len(stream))[rows], Outcome(_lost(stream, rows, taken), asked, explored)


def _joined(parts: list[tuple[Array, Outcome]]) -> Outcome:
    """In the order of the stream."""
    order = np.argsort(np.concatenate([places for places, _ in parts]))
    return Outcome(*(np.concatenate(field)[order] for field in zip(*(outcome for _, outcome in parts), strict=True)))


def _lost(stream: streams.Stream, rows: slice, taken: Array) -> Array:
    assert stream.expected is not None
    expected = stream.expected[rows]
    lost: Array = expected.max(axis=1) - expected[np.arange(len(taken)), taken]
    return lost
