"""Does a learner find the relevant features? Precision and recall against the number of observed rewards."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from releaf.evaluate import Run
from releaf.paper.agreement import Agreement
from releaf.paper.experiment import Results
from releaf.paper.scores import LEAST_SHARE, Scored, averaged, rewards_until, scored
from releaf.report.figures import Column, Figures, Line, Picture

ACTIONS = 3
FIRST_CHECKPOINT, CHECKPOINTS = 30, 24
GOOD = 0.9  # F1
SHOWN = 50  # features in the pictures over time
THRESHOLDS, THRESHOLDS_AT = (0.1, LEAST_SHARE, 0.4), 20
UNIFORM = "AdaptiveReleaf, uniform"


class Learner(NamedTuple):
    """A learner: its policy, what to make it with, and whether its relevance is of all exploitations so far."""

    policy: str
    arguments: dict[str, Any]
    cumulative: bool


class Case(NamedTuple):
    """A kind of stream: the shape of expected rewards, how many features matter to each action, and the noise."""

    shape: str
    d: int
    noise: float

    def __str__(self) -> str:
        return f"{self.shape}, d = {self.d}, noise ±{self.noise:g}"


LEARNERS = {
    "RELEAF": Learner("Releaf", {}, True),
    "RELEAF-ALL": Learner("Releaf", {"observe": "always"}, True),
    "CMAB-RL": Learner("CMABRL", {}, True),
    "AdaptiveReleaf": Learner("AdaptiveReleaf", {}, False),
    UNIFORM: Learner("AdaptiveReleaf", {"least_probability": 0.5}, False),  # 0.5 counts as 1/A
    "LASSO": Learner("releaf.paper.lasso:LassoBandit", {}, False),
}
WAVE, LINE = Case("wave", 1, 0.1), Case("line", 1, 0.1)
NOISY, WAVE_OF_TWO, LINE_OF_TWO = Case("wave", 1, 0.3), Case("wave", 2, 0.1), Case("line", 2, 0.1)
ALL = (5, 10, 20, 50, 100, 200)
SOME = (5, 20, 100)
GRID: dict[Case, tuple[int, ...]] = {WAVE: ALL, LINE: ALL, NOISY: SOME, WAVE_OF_TWO: ALL, LINE_OF_TWO: SOME}
QUICK: dict[Case, tuple[int, ...]] = {WAVE: (5, 20), LINE: (5,)}
# Steps that are affordable by the number of features. RELEAF observes few rewards and is fast, so it has more of them,
# but γ_rel = 2 looks at all quadruples of features: D ≤ 20 there, and D ≤ 10 for CMAB-RL.
STEPS = {5: 3_000, 10: 3_000, 20: 2_000, 50: 2_000, 100: 1_500, 200: 1_500}
STEPS_IN_PAIRS: dict[tuple[str, int], dict[int, int]] = {
    ("Releaf", 1): {5: 20_000, 10: 20_000, 20: 20_000, 50: 8_000, 100: 3_000, 200: 1_500},
    ("Releaf", 2): {5: 20_000, 10: 10_000, 20: 1_500},
    ("CMABRL", 1): {5: 3_000, 10: 3_000, 20: 2_000, 50: 2_000, 100: 1_500},
    ("CMABRL", 2): {5: 3_000, 10: 1_500},
}
MOST_QUICK_STEPS = 600
FEWER_SEEDS, FEWER_FROM = 5, 50  # runs, with so many features
FEWEST_SEEDS = 2  # of RELEAF at d = 2 and D = 20


def planted(features: int, d: int, seed: int) -> list[list[int]]:
    """The relevant features of each action: others for each, at random places.

    They are drawn, since ties go to the first features in RELEAF. Where there are too few for all actions to have
    features of their own, the last action shares some with the first.
    """
    order = np.random.default_rng(seed).permutation(features).tolist()
    return [[order[index % features] for index in range(d * action, d * action + d)] for action in range(ACTIONS)]


def label_of(learner: str, case: Case, features: int) -> str:
    """What a learner's runs over one kind of stream are called."""
    return f"{learner}; {case}; D = {features}"


class Planted:
    """Streams whose relevant features are known."""

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        return [
            self._run(name, case, features, steps, seed)
            for name, case, features, steps in _combinations(quick)
            for seed in range(min(seeds, _most_seeds(LEARNERS[name].policy, case.d, features)))
        ]

    def _run(self, name: str, case: Case, features: int, steps: int, seed: int) -> Run:
        learner = LEARNERS[name]
        given = dict(learner.arguments)
        if (learner.policy, case.d) in STEPS_IN_PAIRS:
            given["gamma_rel"] = case.d
        if learner.policy == "CMABRL":
            given["horizon"] = steps
        stream = {
            "steps": steps,
            "features": features,
            "actions": ACTIONS,
            "relevant": planted(features, case.d, seed),
            "lipschitz": 1.0 - 2.0 * case.noise,  # the same wave, before noise squeezes it into [noise, 1 - noise]
            "noise": case.noise,
            "shape": case.shape,
            "seed": seed,
        }
        return Run(
            label=label_of(name, case, features),
            stream="generate",
            stream_arguments=stream,
            policy=learner.policy,
            policy_arguments=given,
            seed=seed,
            checkpoints=tuple(np.unique(np.geomspace(FIRST_CHECKPOINT, steps, CHECKPOINTS).astype(int))),
        )

    def figures(self, results: Results) -> list[Figures]:
        return [self._needed(results), self._by_threshold(results)]

    def _needed(self, results: Results) -> Figures:
        """The number of rewards that each learner needs, by the number of features."""
        shown = sorted({features for case in GRID for features in _features(results, case)})
        lines = []
        for case in GRID:
            for name in LEARNERS if _features(results, case) else ():
                needed = [_needed(results, name, case, features) for features in shown]
                ours = tuple([] if rewards is None else [rewards] for rewards in needed)
                lines.append(Line(f"{case}: {name}", (None,) * len(shown), ours))
        columns = tuple(Column(f"D = {features}", digits=0) for features in shown)
        return Figures("Rewards until the relevant features are found", columns, lines, CAPTION)

    def _by_threshold(self, results: Results) -> Figures:
        """F1 at the end of the runs, by the share at which a feature is reported."""
        columns = tuple(Column(f"{least:.0%}") for least in THRESHOLDS)
        lines = []
        for case in (WAVE, NOISY, LINE):
            for name in LEARNERS:
                found = [scores(results, name, case, THRESHOLDS_AT, least) for least in THRESHOLDS]
                if found[0]:
                    values = tuple([run.scores[-1].f1 for run in runs] for runs in found)
                    lines.append(Line(f"{case}: {name}", (None,) * len(THRESHOLDS), values))
        caption = f"F1 at the end of each run, by the share that a feature needs. {LEAST_SHARE:.0%} is used elsewhere."
        return Figures(f"How much the threshold matters, D = {THRESHOLDS_AT}", columns, lines, caption)

    def pictures(self, results: Results) -> list[Picture]:
        needed = [_by_features(results, case) for case in (WAVE, LINE)]
        return [*needed, _over_time(results, "recall"), _over_time(results, "precision")]


CAPTION = (
    f"Observed rewards, of all {ACTIONS} actions together, from which on the mean F1 of the runs stays at {GOOD:g} or "
    "above for two checkpoints at least; – where it does not, or nothing was run. One figure for all runs, so there is "
    "no interval. RELEAF: L = 1, ρ*, δ = 0.05, control numbers divided by 5000. Noise of ±0.3 leaves expected rewards "
    "two fifths of their range. A feature is reported for an action when it has at least "
    f"{LEAST_SHARE:.0%} of the action's relevance: one rule for all learners, which does not know d. RELEAF and "
    "CMAB-RL are judged by their exploitations since the checkpoint before; they know d, as gamma_rel. AdaptiveReleaf, "
    "uniform, and LASSO take actions at random, the others decide. "
    "wave: one turn, somewhere, which LASSO may miss; line: linear, as LASSO assumes. At d = 2 RELEAF has about D⁴/24 "
    f"cells of four features: it runs up to D = 20 ({STEPS_IN_PAIRS['Releaf', 2][20]:,} steps, {FEWEST_SEEDS} seeds), "
    "CMAB-RL up to D = 10. Each D draws waves of its own, so LASSO's figures vary between them. "
    f"From D = {FEWER_FROM} on there are {FEWER_SEEDS} seeds at most. Steps at d = 1: {STEPS[5]:,} down to "
    f"{STEPS[200]:,} by D, for RELEAF {STEPS_IN_PAIRS['Releaf', 1][5]:,} down to {STEPS_IN_PAIRS['Releaf', 1][200]:,}."
)


def scores(results: Results, name: str, case: Case, features: int, least: float = LEAST_SHARE) -> list[Scored]:
    """The scores of a learner's runs over one kind of stream, one for each seed."""
    ledgers = results.get(label_of(name, case, features), [])
    cumulative = LEARNERS[name].cumulative
    return [scored(ledger, planted(features, case.d, seed), cumulative, least) for seed, ledger in enumerate(ledgers)]


def _combinations(quick: bool) -> Iterator[tuple[str, Case, int, int]]:
    """All learners, cases, numbers of features and of steps that are affordable together."""
    for case, counts in (QUICK if quick else GRID).items():
        for features in counts:
            for name, learner in LEARNERS.items():
                steps = STEPS_IN_PAIRS.get((learner.policy, case.d), STEPS).get(features)
                if steps is not None:
                    yield name, case, features, min(steps, MOST_QUICK_STEPS) if quick else steps


def _most_seeds(policy: str, d: int, features: int) -> int:
    """How many runs are affordable."""
    if (policy, d, features) == ("Releaf", 2, 20):
        return FEWEST_SEEDS
    return FEWER_SEEDS if features >= FEWER_FROM else sys.maxsize


def _features(results: Results, case: Case) -> list[int]:
    """The numbers of features for which there are runs."""
    return [features for features in ALL if any(label_of(name, case, features) in results for name in LEARNERS)]


def _needed(results: Results, name: str, case: Case, features: int) -> float | None:
    runs = scores(results, name, case, features)
    return rewards_until(runs, GOOD) if runs else None


def _by_features(results: Results, case: Case) -> Picture:
    """How the number of rewards that a learner needs grows with the number of features."""
    rows = [
        {"series": name, "x": features, "y": needed}
        for name in LEARNERS
        for features in _features(results, case)
        if (needed := _needed(results, name, case, features)) is not None
    ]
    title = f"Rewards until the relevant features are found: {case}"
    caption = (
        f"From there on the mean F1 of the runs stays at {GOOD:g} or above. No point: it does not, or was not run."
    )
    return Picture(title, "lines", rows, "features (D)", "observed rewards", "learner", log=True, caption=caption)


def _over_time(results: Results, of: str) -> Picture:
    """Recall or precision against the number of observed rewards."""
    features = max((count for count in _features(results, WAVE) if count <= SHOWN), default=SHOWN)
    rows = []
    for name in LEARNERS:
        runs = scores(results, name, WAVE, features)
        if runs:
            last = max(int(run.labels[-1]) for run in runs)
            labels = np.unique(np.geomspace(FIRST_CHECKPOINT, max(last, FIRST_CHECKPOINT), 40).astype(int))
            values = averaged(runs, of, labels)
            found = zip(labels.tolist(), values.tolist(), strict=True)
            rows += [{"series": name, "x": x, "y": y} for x, y in found if not math.isnan(y)]
    title = f"{of.capitalize()} of the relevant features: {WAVE}, D = {features}"
    captions = {
        "recall": "Share of the relevant features that are reported.",
        "precision": "Share of the reported features that are relevant, over runs that report any.",
    }
    return Picture(title, "lines", rows, "observed rewards", of, "learner", log="x", caption=captions[of])


class RelevanceRecovery:
    """Whether learners find the features that matter: planted ones, and those of real classes."""

    name = "relevance-recovery"
    title = "Recovery of the relevant features"
    parts = (Planted(), Agreement())

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        return [run for part in self.parts for run in part.runs(seeds, quick)]

    def figures(self, results: Results) -> list[Figures]:
        return [figures for part in self.parts for figures in part.figures(results)]

    def pictures(self, results: Results) -> list[Picture]:
        return [picture for part in self.parts for picture in part.pictures(results)]
