"""The paper's webpage recommendations: on a generated click log, and on Yahoo!'s where it is at hand."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from releaf.evaluate import Ledger, Run
from releaf.paper.experiment import Results, line
from releaf.paper.settings import SETTINGS_TEXT, releaf_arguments
from releaf.report.figures import Column, Figures, Line, Picture
from releaf.streams.data_files import find
from releaf.streams.webpages import CAMPAIGNS

YAHOO = "ydata-fp-td-clicks-v1_0.20090501.gz"  # the first day of the R6A data set
VISITS = 10_000
BEST = "Best possible"

POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "CZ": ("ContextualZooming", {}),
    "Hybrid-ε": ("HybridEpsilon", {}),
    "LinUCB": ("LinUCB", {}),
    "RELEAF-ALL": ("Releaf", releaf_arguments("always")),
    "AdaptiveReleaf": ("AdaptiveReleaf", {}),
    "Random": ("Random", {}),
}
OF_SAMPLE = ("LinUCB", "RELEAF-ALL", "Random")  # run on the Open Bandit sample, where no two policies differ
PAPER = {"CZ": 3.79, "Hybrid-ε": 6.41, "LinUCB": 6.06, "RELEAF-ALL": 6.62}
OF_LOG = (
    Column("click-through rate %", lambda ledger: 100.0 * ledger.reward),
    Column("from", lambda ledger: 100.0 * ledger.reward_interval[0] if ledger.reward_interval else None),
    Column("to", lambda ledger: 100.0 * ledger.reward_interval[1] if ledger.reward_interval else None),
    Column("displays matched", lambda ledger: float(ledger.steps), 0),
)


def expected_rate(ledger: Ledger) -> float:
    """The expected click-through rate of the decisions in percent: the best possible one, less the regret a step."""
    if ledger.best_reward is None:
        raise ValueError("best_reward is None: expected a run over a stream whose expected rewards are known")
    return 100.0 * (ledger.best_reward - ledger.regret / ledger.steps)


OF_VISITS = (
    Column("expected click-through rate %", expected_rate),
    Column("clicked %", lambda ledger: 100.0 * ledger.reward),
    Column("explorations", lambda ledger: float(ledger.explored), 0),
)


class Webpages:
    """Table of the webpage recommendations."""

    name = "webpages"
    title = "Webpage recommendation"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        steps = VISITS // 5 if quick else VISITS
        runs = []
        for name, (policy, given) in POLICIES.items():
            for seed in range(seeds):
                made: dict[str, Any] = {"policy": policy, "policy_arguments": given, "seed": seed}
                visits = {"steps": steps, "seed": seed}
                runs.append(Run(label=name, stream="clicks", stream_arguments=visits, **made))
                for where, (stream, arguments) in _logs(name, quick).items():
                    runs.append(Run(label=f"{name}, {where}", stream=stream, stream_arguments=arguments, **made))
        return runs

    def figures(self, results: Results) -> list[Figures]:
        generated, recorded = _of_visits(results), [label for label in results if label.endswith(", Yahoo!")]
        return [*([generated] if generated.lines else []), *([_of_yahoo(recorded, results)] if recorded else [])]

    def pictures(self, results: Results) -> list[Picture]:
        found = {name: [expected_rate(ledger) for ledger in results.get(name, [])] for name in POLICIES}
        found = {name: rates for name, rates in found.items() if rates}
        if not found:
            return []
        found[BEST] = _best(results)
        order = sorted(found, key=lambda name: -float(np.mean(found[name])))
        rows = [{"y": name, "x": rate} for name in order for rate in found[name]]
        caption = (
            "The generated click log. Means with 95 % intervals over the runs, each of other visitors; intervals of "
            "few runs are wide."
        )
        title = "Webpage recommendation: expected click-through rate"
        return [Picture(title, "estimates", rows, "expected click-through rate, %", "", caption=caption)]


def _logs(name: str, quick: bool) -> dict[str, tuple[str, dict[str, Any]]]:
    """The recorded logs that are at hand, for a policy: Yahoo!'s, and the campaigns of the Open Bandit Dataset."""
    logs: dict[str, tuple[str, dict[str, Any]]] = {}
    licensed = find(YAHOO)
    if licensed is not None:
        logs["Yahoo!"] = ("yahoo", {"path": str(licensed), "steps": 10_000, "articles": 5})
    for campaign in (CAMPAIGNS[:1] if quick else CAMPAIGNS) if name in OF_SAMPLE else ():
        if find(f"obd-random-{campaign}.csv.gz") is not None:
            logs[campaign] = ("open_bandit", {"campaign": campaign})
    return logs


def _best(results: Results) -> list[float]:
    """The rate of the best possible policy on each run's visits, which are the same for all policies."""
    ledgers = next(results[name] for name in POLICIES if name in results)
    return [100.0 * ledger.best_reward for ledger in ledgers if ledger.best_reward is not None]


def _of_visits(results: Results) -> Figures:
    lines = [line(name, OF_VISITS, results) for name in POLICIES if name in results]
    if lines:
        lines.append(Line(BEST, (None,) * len(OF_VISITS), (_best(results), [], [])))
    stated = ", ".join(f"{name} {rate}" for name, rate in PAPER.items())
    caption = (
        f"{VISITS:,} generated visits (releaf.streams.clicks): five user features that sum to one, five articles whose "
        "click rates depend on one or two of them. The clicks' probabilities are known, so the expected rate is that "
        "of the decisions without the noise of rare clicks. Every policy sees the click on its own article only. "
        f"RELEAF-ALL: {SETTINGS_TEXT}; defaults of all others. The paper's rates are of Yahoo!'s log, and can't be "
        f"compared: {stated} (%). {open_bandit_outcome(results)}"
    )
    return Figures("Webpage recommendation: a generated click log", OF_VISITS, lines, caption)


def _of_yahoo(labels: list[str], results: Results) -> Figures:
    lines = []
    for label in labels:
        measured = line(label, OF_LOG, results, (PAPER.get(label.split(", ")[0]),))
        lines.append(measured._replace(ours=tuple([float(np.mean(values))] for values in measured.ours if values)))
    caption = (
        "Unbiased replay of articles displayed by chance; means over the runs of the rate and of its 95 % interval, "
        "which is that of one run: all runs are of the same log."
    )
    return Figures("Webpage recommendation: 5 articles of Yahoo!'s log", OF_LOG, lines, caption)


def open_bandit_outcome(results: Results) -> str:
    """What replay of the Open Bandit Dataset's sample tells, in a sentence; from the runs, where there are any."""
    runs = {label: ledgers for label, ledgers in results.items() if label.rpartition(", ")[2] in CAMPAIGNS}
    if not runs:
        return "The Open Bandit Dataset's sample was not at hand."
    campaigns = [campaign for campaign in CAMPAIGNS if any(label.endswith(f", {campaign}") for label in runs)]
    rows = sum(next(runs[label][0].curves["rows"][0] for label in runs if label.endswith(c)) for c in campaigns)
    every = [ledger for ledgers in runs.values() for ledger in ledgers]
    matched = float(np.mean([ledger.steps for ledger in every]))
    clicked = float(np.mean([_clicks(ledger) for ledger in every]))
    apart, pairs = _apart(runs, campaigns)
    verdict = f"{apart} of {pairs} pairs of policies have 95 % intervals that don't overlap"
    if not apart:
        verdict = "clicks are so few that the 95 % intervals of all policies overlap, and none can be told from another"
    return (
        f"On the Open Bandit Dataset's sample ({', '.join(campaigns)}), where five items of each campaign were "
        f"displayed {rows:,.0f} times in all, a policy's decisions match {matched:.0f} displays of a campaign with "
        f"{clicked:.1f} clicks on average: {verdict}."
    )


def _clicks(ledger: Ledger) -> float:
    """How many of the matched displays were clicked; the rate of none is not a number."""
    return ledger.reward * ledger.steps if ledger.steps else 0.0


def _apart(runs: dict[str, list[Ledger]], campaigns: list[str]) -> tuple[int, int]:
    """How many pairs of policies have intervals that don't overlap on the same campaign, and of how many pairs."""
    apart = pairs = 0
    for campaign in campaigns:
        intervals = [
            np.mean([ledger.reward_interval for ledger in ledgers if ledger.reward_interval], axis=0)
            for label, ledgers in runs.items()
            if label.endswith(f", {campaign}")
        ]
        for one, other in combinations(intervals, 2):
            pairs += 1
            apart += bool(max(one[0], other[0]) > min(one[1], other[1]))
    return apart, pairs
