"""Off-policy evaluation: coverage of all intervals on logs of known truth, obp's estimates, and time for 200,000 rows.

The logs are those of tests/support/planted_logs.py: a logistic logging policy, the stronger, the smaller are its
smallest propensities, and rewards that depend on one feature per action.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import releaf
from benchmarks.measure import Finding, Say
from releaf import evaluate

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from planted_logs import planted_log

LOGS = 500
ESTIMATED_LOGS = 100  # with estimated propensities
# Strength of the logging policy, rate of rewards, rows of a log.
WORLDS = tuple(
    (strength, rate, rows) for strength in (1.0, 3.0, 6.0, 10.0) for rate in (1.0, 0.1) for rows in (500, 4_000)
)
LEAST_COVERAGE = 0.93  # 95 % less two standard errors of 500 logs
ROWS = 200_000
MOST_SECONDS = 20.0
LEAST_SHARE = 0.9  # of the effective rows with true propensities


def run(say: Say) -> list[Finding]:
    findings = [finding for world in WORLDS for finding in _coverage(*world, say)]
    findings += _estimated(say)
    findings += _against_obp(say)
    return [*findings, _time(say)]


def _coverage(strength: float, rate: float, rows: int, say: Say) -> list[Finding]:
    """Share of logs whose intervals hold the truth, for each estimator; and that of the normal interval of IPS."""
    held: dict[str, int] = defaultdict(int)
    widths: dict[str, list[float]] = defaultdict(list)
    effective = []
    for seed in range(LOGS):
        say(f"coverage, strength {strength:g}, rate {rate:g}, {rows:,} rows: log {seed + 1} of {LOGS}")
        planted = planted_log(rows, seed, strength=strength, rate=rate)
        found = evaluate.estimate_all(planted.log, planted.chosen, reward_range=(0.0, 1.0))
        found["ips, normal"] = evaluate.ips(planted.log, planted.chosen, interval="normal")
        found["dr, normal"] = evaluate.doubly_robust(planted.log, planted.chosen, interval="normal")
        for name, estimate in found.items():
            held[name] += estimate.low <= planted.truth <= estimate.high
            widths[name].append(estimate.high - estimate.low)
        effective.append(evaluate.effective_rows(planted.log, planted.chosen))
    world = f"strength {strength:g}, rate {rate:g}, {rows:,} rows"
    return [
        Finding(
            what=f"coverage of {name}: {world}",
            value=float(count / LOGS),
            unit="",
            at_least=None if "normal" in name else LEAST_COVERAGE,
            detail={
                "logs": LOGS,
                "width": float(np.mean(widths[name])),
                "effective_rows": float(np.median(effective)),
                "strength": strength,
                "rate": rate,
                "rows": rows,
                "estimator": name,
            },
        )
        for name, count in held.items()
    ]


def _estimated(say: Say) -> list[Finding]:
    """Coverage and effective rows with estimated propensities of a logistic policy."""
    held: dict[str, int] = defaultdict(int)
    shares = []
    for seed in range(ESTIMATED_LOGS):
        say(f"estimated propensities: log {seed + 1} of {ESTIMATED_LOGS}")
        planted = planted_log(2_000, seed, strength=2.0)
        known = evaluate.estimate_propensities(replace(planted.log, probabilities=None), seed=seed).log
        for name, found in evaluate.estimate_all(known, planted.chosen, reward_range=(0.0, 1.0)).items():
            held[name] += found.low <= planted.truth <= found.high
        true_rows = evaluate.effective_rows(planted.log, planted.chosen)
        shares.append(evaluate.effective_rows(known, planted.chosen) / true_rows)
    detail = {"logs": ESTIMATED_LOGS, "rows": 2_000, "strength": 2.0}
    covered = [
        Finding(
            what=f"coverage of {name}: estimated propensities, strength 2, 2,000 rows",
            value=float(count / ESTIMATED_LOGS),
            unit="",
            at_least=0.9,  # 95 % less 2.3 standard errors
            detail={**detail, "estimator": name},
        )
        for name, count in held.items()
    ]
    least = Finding(
        what="effective rows with estimated propensities, of those with true ones: the least of all logs",
        value=min(shares),
        unit="",
        at_least=LEAST_SHARE,
        detail={**detail, "mean": float(np.mean(shares))},
    )
    return [*covered, least]


def _against_obp(say: Say) -> list[Finding]:
    """Largest difference from obp's estimates on the same log, figure by figure; nothing without obp."""
    try:
        from obp import ope
    except ImportError:
        return []
    say("obp: the same log")
    planted = planted_log(20_000, 0, strength=2.0)
    log, model = planted.log, evaluate.cross_fit_rewards(planted.log)
    given: dict[str, Any] = {
        "reward": log.rewards,
        "action": log.taken,
        "pscore": log.probabilities,
        "action_dist": np.eye(3)[planted.chosen][:, :, None],
        "position": np.zeros(len(log), dtype=int),
    }
    with_model = given | {"estimated_rewards_by_reg_model": model[:, :, None]}
    theirs = {
        "ips": ope.InverseProbabilityWeighting().estimate_policy_value(**given),
        "snips": ope.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given),
        "dm": ope.DirectMethod().estimate_policy_value(**with_model),
        "dr": ope.DoublyRobust().estimate_policy_value(**with_model),
        "sndr": ope.SelfNormalizedDoublyRobust().estimate_policy_value(**with_model),
        "switch-dr": ope.SwitchDoublyRobust(tau=3.0).estimate_policy_value(**with_model),
    }
    ours = {name: found.value for name, found in evaluate.estimate_all(log, planted.chosen, model).items()}
    ours["switch-dr"] = evaluate.switch_dr(log, planted.chosen, model, threshold=3.0).value
    return [
        Finding(
            what=f"{name}: difference from obp",
            value=float(abs(ours[name] - value)),
            unit="",
            at_most=1e-9,
            detail={"ours": ours[name], "obp": float(value)},
        )
        for name, value in theirs.items()
    ]


def _time(say: Say) -> Finding:
    """Seconds to train and evaluate three policies on a log: learn one half, decide and estimate on the other."""
    planted = planted_log(ROWS, 0, strength=2.0)
    first, second = evaluate.halves(planted.log)
    seconds = {}
    names = ("LinUCB", "AdaptiveReleaf", "Releaf")
    for turn in ("compile", "measure"):
        for name in names:
            say(f"{ROWS:,} rows: {turn} {name}")
            rows = slice(0, 2_000 if turn == "compile" else None)
            policy = getattr(releaf, name)(first.actions, first.features, seed=0)
            started = time.perf_counter()
            taken = [first.actions[index] for index in first.taken[rows].tolist()]
            policy.learn_log(first.contexts[rows], taken, first.rewards[rows])
            evaluate.estimate_all(second, evaluate.choices(policy, second))
            seconds[name] = time.perf_counter() - started
    return Finding(
        what=f"off-policy evaluation of {', '.join(names)} on {ROWS:,} rows",
        value=sum(seconds.values()),
        unit="s",
        at_most=MOST_SECONDS,
        detail=seconds,
    )
