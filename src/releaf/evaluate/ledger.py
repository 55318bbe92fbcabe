"""What a policy's decisions over a stream earned and cost: the paper's account."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from releaf.evaluate.guarantee import Guarantee, guarantee, require_checkable
from releaf.policy import Policy, Trace
from releaf.streams import Stream

Array = np.ndarray[Any, np.dtype[Any]]
Progress = Callable[[int, int], None]  # steps so far, and in all
_CHUNK = 5_000
MOST_CHECKPOINTS = 100  # which bounds a ledger's size


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """One run. Errors are shares of decisions, in percent, whose reward is not the highest there was.

    Attributes
    ----------
    steps, explored
        How many decisions there were, and how many of them explorations.
    labels, prior_labels, weight_labels
        How many rewards were observed; how many labelled cases went in before the first decision; and how many of
        those into the weights of votes, as the paper counts them.
    observation_cost
        What the observed rewards cost: their number times c_O.
    reward, reward_interval, best_reward
        The mean reward, the click-through rate where rewards are clicks; its 95 % interval, where it is an estimate
        from a log; and the mean of the best expected rewards, where expectations are known.
    error, missed, false
        Of all decisions; of those where the positive action was right; of the others. The last two are None where no
        action is the positive one.
    exploitation_error, exploitation_missed, exploitation_false
        The same of exploitations; None where there were none.
    regret, regret_exploring, regret_exploiting
        What the best expected reward, or the best reward where expectations aren't known, exceeds that of the actions
        taken by, added up, with what observing costs; and its parts, of explorations and of exploitations.
    relevance
        For each action the share of exploitations in which each feature was relevant, where the policy tells.
    partition
        For each feature its intervals at the end (low, high, arrivals), where the policy has such.
    seconds
        How long the decisions took.
    guarantee
        How the losses of exploitations compare with Theorem 1's bound, where the relevant features were given.
    curves
        Running totals at some steps: ``steps``, ``regret``, ``explored``, ``labels``, ``errors``.
    checkpoints
        What the policy reported on the way, where that was asked for: at each of ``steps``, how many decisions were
        ``explored``, how many ``labels`` were observed, and the ``relevance`` so far, None where it does not tell.
    """

    steps: int
    explored: int
    labels: int
    prior_labels: int
    weight_labels: int
    observation_cost: float
    reward: float
    reward_interval: list[float] | None
    best_reward: float | None
    error: float
    missed: float | None
    false: float | None
    exploitation_error: float | None
    exploitation_missed: float | None
    exploitation_false: float | None
    regret: float
    regret_exploring: float
    regret_exploiting: float
    relevance: list[list[float]] | None
    partition: list[list[list[float]]] | None
    seconds: float
    guarantee: Guarantee | None = None
    curves: dict[str, list[float]] = field(repr=False)
    checkpoints: dict[str, list[Any]] | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def run(
    policy: Policy,
    stream: Stream,
    *,
    positive: Any = None,
    observation_cost: float = 0.0,
    relevant: Sequence[int] | None = None,
    points: int = 200,
    checkpoints: Iterable[int] = (),
    progress: Progress | None = None,
) -> Ledger:
    """Let a policy live through a stream, and account for it.

    Parameters
    ----------
    policy
        Any policy; it goes on from what it knows.
    stream
        Where contexts and rewards come from.
    positive
        The action whose absence is a miss, such as "malignant"; None where there is no such action.
    observation_cost
        The price of observing a reward (c_O).
    relevant
        For each action the position of the one feature that its expected reward depends on, where that is known: the
        ledger then has a ``guarantee``. It takes a new :class:`releaf.Releaf`, and features that are in [0, 1] as they
        are.
    points
        At how many steps the curves are noted.
    checkpoints
        Numbers of steps, growing and 100 of them at most, after each of which the ledger's ``checkpoints`` note what
        the policy's ``relevance()`` says. The decisions are the same with and without them.
    progress
        Told the steps so far and in all.

    Examples
    --------
    >>> import releaf
    >>> from releaf.evaluate import run
    >>> from releaf.streams import breast_cancer
    >>> cases = breast_cancer(2_000)
    >>> ledger = run(releaf.LinUCB(cases.actions, cases.features), cases, positive="malignant")
    >>> ledger.labels, ledger.error < 10
    (2000, True)
    """
    if not len(stream):
        raise ValueError("the stream is empty: expected at least one step")
    if positive is not None and positive not in stream.actions:
        raise ValueError(f"positive is {positive!r}: expected one of the actions {stream.actions!r}")
    if relevant is not None:
        require_checkable(policy, stream, relevant)
    stops = checked_checkpoints(checkpoints)
    if stops and stops[-1] > len(stream):
        raise ValueError(f"checkpoints ends with {stops[-1]}: expected at most the {len(stream)} steps of the stream")
    traces, found, begin, seconds = [], [], 0, 0.0
    for end in sorted({*range(_CHUNK, len(stream), _CHUNK), *stops, len(stream)}):
        start = time.perf_counter()
        traces.append(policy.replay(stream.contexts[begin:end], stream.rewards[begin:end]))
        seconds += time.perf_counter() - start
        begin = end
        if end in stops:
            found.append(_relevance(policy))
        if progress is not None and (end % _CHUNK == 0 or end == len(stream)):
            progress(end, len(stream))
    fields = ("actions", "explored", "observed", "rewards")
    trace = Trace(*(np.concatenate([getattr(part, name) for part in traces]) for name in fields))
    ledger = account(
        trace,
        stream,
        policy,
        positive=positive,
        observation_cost=observation_cost,
        relevant=relevant,
        points=points,
        seconds=seconds,
    )
    return replace(ledger, checkpoints=_noted(stops, trace, found)) if stops else ledger


def checked_checkpoints(given: Any) -> tuple[int, ...]:
    """Growing numbers of steps, as plain numbers."""
    try:
        steps = tuple(operator.index(step) for step in given)
    except TypeError:
        raise TypeError(f"checkpoints is {given!r}: expected growing numbers of steps") from None
    if len(steps) > MOST_CHECKPOINTS:
        raise ValueError(f"checkpoints has {len(steps)} entries: expected {MOST_CHECKPOINTS} at most")
    if any(later <= earlier for earlier, later in pairwise((0, *steps))):
        raise ValueError(f"checkpoints is {given!r}: expected numbers of steps from 1 on, each above the one before")
    return steps


def _noted(stops: tuple[int, ...], trace: Trace, relevance: list[Any]) -> dict[str, list[Any]]:
    at = np.array(stops) - 1
    totals = {"explored": trace.explored, "labels": trace.observed}
    counts = {name: np.cumsum(values)[at].tolist() for name, values in totals.items()}
    return {"steps": list(stops), **counts, "relevance": relevance}


def account(
    trace: Trace,
    stream: Stream,
    policy: Any = None,
    *,
    positive: Any = None,
    observation_cost: float = 0.0,
    relevant: Sequence[int] | None = None,
    points: int = 200,
    seconds: float = 0.0,
) -> Ledger:
    """The ledger of a run that has been."""
    best = stream.rewards.max(axis=1)
    wrong, exploited = trace.rewards < best, ~trace.explored
    counts = {"explored": trace.explored, "labels": trace.observed, "errors": wrong}
    lost = _losses(trace, stream) + observation_cost * trace.observed
    totals = {name: np.cumsum(values) for name, values in {"regret": lost, **counts}.items()}
    at = thinned(len(trace), points)
    curves = {name: total[at].astype(float).tolist() for name, total in totals.items()}
    spent = observation_cost * float(trace.observed.sum())
    hit = None if positive is None else stream.rewards[:, stream.actions.index(positive)] == best
    return Ledger(
        steps=len(trace),
        explored=int(trace.explored.sum()),
        labels=int(trace.observed.sum()),
        prior_labels=getattr(policy, "prior_labels", 0),
        weight_labels=getattr(policy, "weight_labels", 0),
        observation_cost=spent,
        reward=float(trace.rewards.mean()),
        reward_interval=None,
        best_reward=None if stream.expected is None else float(stream.expected.max(axis=1).mean()),
        error=_percent(wrong, np.ones_like(wrong)) or 0.0,
        missed=_percent(wrong, hit),
        false=_percent(wrong, None if hit is None else ~hit),
        exploitation_error=_percent(wrong, exploited),
        exploitation_missed=_percent(wrong, None if hit is None else exploited & hit),
        exploitation_false=_percent(wrong, None if hit is None else exploited & ~hit),
        regret=float(lost.sum()),
        regret_exploring=float(lost[trace.explored].sum()),
        regret_exploiting=float(lost[exploited].sum()),
        relevance=_relevance(policy),
        partition=_partition(policy),
        seconds=seconds,
        guarantee=None if relevant is None else guarantee(trace, stream, policy, relevant),
        curves={"steps": (at + 1.0).tolist(), **curves},
    )


def rejected(estimate: Any, rows: int) -> Ledger:
    """The ledger of a policy that lived through a log by rejection: of the rows that it matched."""
    nothing = dict.fromkeys(("missed", "false", "exploitation_error", "exploitation_missed", "exploitation_false"))
    return Ledger(
        steps=estimate.matched,
        explored=0,
        labels=estimate.observed,
        prior_labels=0,
        weight_labels=0,
        observation_cost=0.0,
        reward=estimate.value,
        reward_interval=[estimate.low, estimate.high],
        best_reward=None,
        error=math.nan,
        regret=math.nan,
        regret_exploring=math.nan,
        regret_exploiting=math.nan,
        relevance=None,
        partition=None,
        seconds=0.0,
        curves={"rows": [float(rows)]},
        **nothing,
    )


def _losses(trace: Trace, stream: Stream) -> Array:
    """By how much each action taken is expected to be worse than the best."""
    means = stream.rewards if stream.expected is None else stream.expected
    losses: Array = means.max(axis=1) - means[np.arange(len(trace)), trace.actions]
    return losses


def _relevance(policy: Any) -> list[list[float]] | None:
    finder = getattr(policy, "relevance", None)
    return None if finder is None else finder().tolist()


def _partition(policy: Any) -> list[list[list[float]]] | None:
    if not hasattr(policy, "partition"):
        return None
    features = range(len(policy.schema))
    return [
        [[part.low, part.high, part.arrivals] for part in policy.partition(feature) if part.low == part.low]
        for feature in features
    ]


def thinned(steps: int, points: int) -> Array:
    """Some of so many steps, half of them evenly spaced and half by their logarithm, for either kind of plot."""
    if steps <= points:
        return np.arange(steps)
    even = np.linspace(0, steps - 1, points)
    growing = np.geomspace(1, steps, points) - 1
    return np.unique(np.concatenate([even[::2], growing[::2], [steps - 1]]).astype(int))


def _percent(wrong: Array, of: Array | None) -> float | None:
    return None if of is None or not of.any() else 100.0 * float(wrong[of].mean())
