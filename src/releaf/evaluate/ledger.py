"""`run`: run a policy over a stream, and the `Ledger` of its rewards, errors, regret and labels."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.compile_clock import compile_clock
from releaf.evaluate.off_policy import costs_for
from releaf.evaluate.theorem1_check import Guarantee, check_theorem1, check_theorem1_applies
from releaf.html_table import html_table
from releaf.policies import Releaf
from releaf.policy import CountsPriorLabels, Policy, Replayable, ReportsIntervals, ReportsRelevance, Trace, replay
from releaf.progress import Progress, report_progress
from releaf.streams import Stream

_CHUNK = 5_000
MAX_CHECKPOINTS = 100  # bounds the size of a ledger
NESTED_FIELDS = ("reward_interval", "relevance", "partition", "guarantee", "curves", "checkpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Results of one run. An error is a decision whose reward is below the best reward of its step.

    Attributes
    ----------
    steps, explored
        Number of decisions, and of explorations among them.
    labels, prior_labels, weight_labels
        Labels spent in this run, one for each decision whose reward was observed; labels used before the first
        decision; and those among them that trained the weights of an ensemble, as the paper counts them.
    observation_cost
        Cost of the observed rewards: their number times c_O.
    reward, reward_interval, best_reward
        Mean reward (the click-through rate, if rewards are clicks); its 95 % confidence interval, if it is estimated
        from a log; and the mean of the best expected rewards, if these are known.
    error, missed, false
        Error rates in percent: of all decisions; of those where the positive action was best; and of the others. The
        last two are None without a positive action.
    exploitation_error, exploitation_missed, exploitation_false
        The same for exploitations only; None without exploitations.
    regret, regret_exploring, regret_exploiting
        Cumulative regret against the best expected reward (or the best reward, if expectations are unknown), plus the
        observation cost; and its parts from explorations and from exploitations.
    relevance
        Per action, the share of exploitations in which each feature was relevant, if the policy reports it.
    partition
        Per feature, the final intervals (low, high, arrivals), if the policy has them.
    seconds
        Duration of the decisions, without that of compiling kernels.
    guarantee
        Losses of exploitations compared with Theorem 1's bound, if ``relevant`` was given.
    curves
        Running totals at some steps: ``steps``, ``regret``, ``explored``, ``labels``, ``errors``.
    policy
        The name of the policy's class, if known; charts label its line with it.
    checkpoints
        At each requested checkpoint in ``steps``: the numbers of ``explored`` decisions and observed ``labels``, and
        the ``relevance`` so far, None if the policy does not report it.
    """

    steps: int
    explored: int
    labels: int
    prior_labels: int = 0
    weight_labels: int = 0
    observation_cost: float = 0.0
    reward: float
    reward_interval: list[float] | None = None
    best_reward: float | None = None
    error: float = math.nan
    missed: float | None = None
    false: float | None = None
    exploitation_error: float | None = None
    exploitation_missed: float | None = None
    exploitation_false: float | None = None
    regret: float = math.nan
    regret_exploring: float = math.nan
    regret_exploiting: float = math.nan
    relevance: list[list[float]] | None = None
    partition: list[list[list[float]]] | None = None
    seconds: float = 0.0
    guarantee: Guarantee | None = None
    policy: str | None = None
    curves: dict[str, list[float]] = field(repr=False)
    checkpoints: dict[str, list[Any]] | None = field(default=None, repr=False)

    def _repr_html_(self) -> str:
        """For notebooks: the totals."""
        totals = {
            "steps": f"{self.steps:,}",
            "explored": f"{self.explored:,}",
            "labels": f"{self.labels:,}",
            "mean reward": f"{self.reward:.4g}",
            "error": "" if math.isnan(self.error) else f"{self.error:.3g} %",
            "regret": "" if math.isnan(self.regret) else f"{self.regret:,.4g}",
        }
        return html_table(list(totals), [list(totals.values())], title=self.policy or "Ledger")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def run(
    policy: Replayable,
    stream: Stream,
    *,
    positive: Any = None,
    observation_cost: float = 0.0,
    relevant: Sequence[int] | None = None,
    points: int = 200,
    checkpoints: Iterable[int] = (),
    progress: Progress = None,
) -> Ledger:
    """Run a policy over a stream.

    Parameters
    ----------
    policy
        Any policy; it continues from its current state.
    stream
        The stream of contexts and rewards. Regret is against the best of its eligible actions.
    positive
        The positive action, such as "malignant", for the rates of misses and false alarms; or None.
    observation_cost
        Cost of observing a reward (c_O).
    relevant
        Per action, the position of the one feature that its expected reward depends on, if known: the ledger then has
        a ``guarantee``. This needs a new :class:`releaf.Releaf`, and features that are in [0, 1] without scaling.
    points
        Number of points of the curves.
    checkpoints
        Up to 100 increasing numbers of steps after which the ledger records the policy's ``relevance()``. They don't
        change the decisions.
    progress
        True for a bar, in a notebook or a terminal; or a function, called with the steps done and the steps in total.

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
        check_theorem1_applies(policy, stream, relevant)
    stops = check_checkpoints(checkpoints)
    if stops and stops[-1] > len(stream):
        raise ValueError(f"checkpoints ends with {stops[-1]}: expected at most the {len(stream)} steps of the stream")
    report = report_progress(progress, f"Running {type(policy).__name__}")
    traces, found, begin, seconds = [], [], 0, 0.0
    costs = costs_for(policy, stream)
    for end in sorted({*range(_CHUNK, len(stream), _CHUNK), *stops, len(stream)}):
        start = time.perf_counter()
        with compile_clock() as compiling:
            eligible = None if stream.eligible is None else stream.eligible[begin:end]
            cost = None if costs is None else costs[begin:end]
            traces.append(replay(policy, stream.contexts[begin:end], stream.rewards[begin:end], eligible, cost))
        seconds += time.perf_counter() - start - compiling.seconds
        begin = end
        if end in stops:
            found.append(_relevance(policy))
        if end % _CHUNK == 0 or end == len(stream):
            report(end, len(stream))
    actions, explored, observed, rewards = (
        np.concatenate([getattr(part, name) for part in traces])
        for name in ("actions", "explored", "observed", "rewards")
    )
    trace = Trace(actions, explored, observed, rewards)
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
    return replace(ledger, checkpoints=_checkpoint_totals(stops, trace, found)) if stops else ledger


def check_checkpoints(given: Any) -> tuple[int, ...]:
    """Validate increasing numbers of steps; returns plain integers."""
    try:
        steps = tuple(operator.index(step) for step in given)
    except TypeError:
        raise TypeError(f"checkpoints is {given!r}: expected increasing numbers of steps") from None
    if len(steps) > MAX_CHECKPOINTS:
        raise ValueError(f"checkpoints has {len(steps)} entries: expected {MAX_CHECKPOINTS} at most")
    if any(later <= earlier for earlier, later in pairwise((0, *steps))):
        raise ValueError(f"checkpoints is {given!r}: expected numbers of steps from 1 on, each above the one before")
    return steps


def _checkpoint_totals(stops: tuple[int, ...], trace: Trace, relevance: list[Any]) -> dict[str, list[Any]]:
    at = np.array(stops) - 1
    totals = {"explored": trace.explored, "labels": trace.observed}
    counts = {name: np.cumsum(values)[at].tolist() for name, values in totals.items()}
    return {"steps": list(stops), **counts, "relevance": relevance}


def account(
    trace: Trace,
    stream: Stream,
    policy: Replayable | None = None,
    *,
    positive: Any = None,
    observation_cost: float = 0.0,
    relevant: Sequence[int] | None = None,
    points: int = 200,
    seconds: float = 0.0,
) -> Ledger:
    """The ledger of a finished run, from its trace."""
    best = _best(stream, stream.rewards)
    wrong, exploited = trace.rewards < best, ~trace.explored
    counts = {"explored": trace.explored, "labels": trace.observed, "errors": wrong}
    lost = _losses(trace, stream) + observation_cost * trace.observed
    totals = {name: np.cumsum(values) for name, values in {"regret": lost, **counts}.items()}
    at = thin_steps(len(trace), points)
    curves = {name: total[at].astype(float).tolist() for name, total in totals.items()}
    spent = observation_cost * float(trace.observed.sum())
    hit = None if positive is None else stream.rewards[:, stream.actions.index(positive)] == best
    return Ledger(
        steps=len(trace),
        explored=int(trace.explored.sum()),
        labels=int(trace.observed.sum()),
        prior_labels=policy.prior_labels if isinstance(policy, CountsPriorLabels) else 0,
        weight_labels=policy.weight_labels if isinstance(policy, Policy) else 0,
        observation_cost=spent,
        reward=float(trace.rewards.mean()),
        best_reward=None if stream.expected is None else float(_best(stream, stream.expected).mean()),
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
        guarantee=None
        if relevant is None or not isinstance(policy, Releaf)
        else check_theorem1(trace, stream, policy, relevant),
        policy=trace.policy if policy is None else type(policy).__name__,
        curves={"steps": (at + 1.0).tolist(), **curves},
    )


def ledger_of_rejection(estimate: Any, rows: int) -> Ledger:
    """The ledger of a rejection-sampling run over a log: of the matched rows."""
    return Ledger(
        steps=estimate.matched,
        explored=0,
        labels=estimate.observed,
        reward=estimate.value,
        reward_interval=[estimate.low, estimate.high],
        curves={"rows": [float(rows)]},
    )


def _best(stream: Stream, rewards: Array) -> Array:
    """Highest reward of the eligible actions at each step."""
    best: Array = (
        rewards.max(axis=1) if stream.eligible is None else rewards.max(axis=1, where=stream.eligible, initial=-np.inf)
    )
    return best


def _losses(trace: Trace, stream: Stream) -> Array:
    """Instantaneous regret of each step."""
    means = stream.rewards if stream.expected is None else stream.expected
    losses: Array = _best(stream, means) - means[np.arange(len(trace)), trace.actions]
    return losses


def _relevance(policy: Replayable | None) -> list[list[float]] | None:
    if isinstance(policy, Policy):
        return policy.relevance().tolist() if policy.traits.finds_relevance else None
    return np.asarray(policy.relevance()).tolist() if isinstance(policy, ReportsRelevance) else None


def _partition(policy: Any) -> list[list[list[float]]] | None:
    reports = policy.traits.has_intervals if isinstance(policy, Policy) else True
    if not (reports and isinstance(policy, ReportsIntervals)):
        return None
    features = range(len(policy.schema))
    return [
        [[part.low, part.high, part.arrivals] for part in policy.partition(feature) if part.low == part.low]
        for feature in features
    ]


def thin_steps(steps: int, points: int) -> Array:
    """Choose about ``points`` of the steps, half evenly and half logarithmically spaced, for both kinds of axes."""
    if steps <= points:
        return np.arange(steps)
    even = np.linspace(0, steps - 1, points)
    growing = np.geomspace(1, steps, points) - 1
    return np.unique(np.concatenate([even[::2], growing[::2], [steps - 1]]).astype(int))


def _percent(wrong: Array, of: Array | None) -> float | None:
    return None if of is None or not of.any() else 100.0 * float(wrong[of].mean())
