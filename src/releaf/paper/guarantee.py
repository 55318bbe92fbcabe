"""Theorem 1's bound on the loss of one exploitation, against what exploitations lose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from releaf import theory
from releaf.evaluate import Ledger, Run
from releaf.paper.experiment import Results, line
from releaf.report.figures import Column, Figures, Line, Picture

DIVISORS = (1, 10, 100, 1000, 5000)
DELTA = 0.05
CONSTANT = theory.instantaneous_bound(1.0, 0.5, 0.5)  # of L·(s + s′)
RELEVANT = [0, 1, 2]  # of each action
ALWAYS_TESTED = 4  # the first problem in which the worst action always loses more than the bound allows


class Setting(NamedTuple):
    """A stream and RELEAF's ρ, chosen so that the last part of the stream is exploited with divisor 1."""

    steps: int
    lipschitz: float
    rho: float


COARSE = Setting(800_000, 0.05, 20.0)  # ρ keeps all intervals at halves
FINE = Setting(200_000, 2.0, theory.balanced_rho(1))
UNDERSTATED = FINE.lipschitz / 20  # the L that the last runs are told

# label: the stream, the divisor, and the L that RELEAF is told
CASES = {
    **{f"L = {COARSE.lipschitz:g}, divisor {divisor}": (COARSE, divisor, COARSE.lipschitz) for divisor in DIVISORS},
    **{f"L = {FINE.lipschitz:g}, divisor {divisor}": (FINE, divisor, FINE.lipschitz) for divisor in DIVISORS},
    f"L = {FINE.lipschitz:g}, told {UNDERSTATED:g}, divisor {DIVISORS[-1]}": (FINE, DIVISORS[-1], UNDERSTATED),
}


def _of(find: Callable[[Any], float | None]) -> Callable[[Ledger], float | None]:
    """A figure of the exploitations; None without any."""
    return lambda ledger: find(ledger.guarantee) if ledger.guarantee and ledger.guarantee["exploitations"] else None


COLUMNS = (
    Column("exploited, % of steps", lambda ledger: 100 * (1 - ledger.explored / ledger.steps), 1),
    Column("runs within, %", _of(lambda found: 100.0 * (found["held"] == found["exploitations"])), 1),
    Column("exploitations within, %", _of(lambda found: 100 * found["held"] / found["exploitations"]), 2),
    Column("could have failed, %", _of(lambda found: 100 * found["tested"] / found["exploitations"]), 1),
    Column("constant needed", _of(lambda found: found["constant"]), 2),
)


class TheoremOne:
    """The loss of each exploitation against 8·L·(s + s′), for control numbers undivided and divided."""

    name = "guarantee"
    title = "Theorem 1's bound on each exploitation"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        return [self._run(label, seed, quick) for label in CASES for seed in range(seeds)]

    def _run(self, label: str, seed: int, quick: bool) -> Run:
        setting, divisor, stated = CASES[label]
        # with divisor 1 a shorter stream would have no exploitations
        steps = setting.steps // 10 if quick and divisor > 1 else setting.steps
        relevant = [[index] for index in RELEVANT]
        stream: dict[str, Any] = {"actions": len(RELEVANT), "features": len(RELEVANT), "relevant": relevant}
        if setting is COARSE:
            stream["problem"] = ALWAYS_TESTED
        return Run(
            label=label,
            stream="generate",
            stream_arguments={**stream, "steps": steps, "lipschitz": setting.lipschitz, "seed": seed},
            policy="Releaf",
            policy_arguments={"lipschitz": stated, "rho": setting.rho, "delta": DELTA, "control_divisor": divisor},
            seed=seed,
            relevant=RELEVANT,
        )

    def figures(self, results: Results) -> list[Figures]:
        lines = [self._line(label, results) for label in results]
        return [Figures("Exploitations within 8·L·(s + s′)", COLUMNS, lines, _caption(), "Theorem 1")]

    def _line(self, label: str, results: Results) -> Line:
        covered = 100 * (1 - DELTA) if CASES[label][1] == 1 else None
        return line(label, COLUMNS, results, (None, covered, None, None, CONSTANT))

    def pictures(self, results: Results) -> list[Picture]:
        shown = [label for label in results if CASES[label][0] is FINE]
        rows = [row for label in shown for row in _exceeding(label, results[label])]
        lowest = min((row["y"] for row in rows), default=1.0)
        rows += [{"series": f"Theorem 1: {CONSTANT:g}", "x": CONSTANT, "y": y} for y in (lowest, 1.0)]
        caption = (
            "Both axes are logarithmic; a line ends just before the largest loss of all runs. The theorem says that "
            "nothing is to the right of its constant, with probability 1 - δ and divisor 1."
        )
        axes = ("loss, in multiples of L·(s + s′)", "share of exploitations that lose more")
        title = f"Losses of exploitations, L = {FINE.lipschitz:g}"
        return [Picture(title, "lines", rows, *axes, series="", log=True, caption=caption)]


def _exceeding(label: str, ledgers: list[Ledger]) -> list[dict[str, Any]]:
    """The share of exploitations that lost more than each multiple of L·(s + s′), averaged over the runs."""
    guarantees = [ledger.guarantee for ledger in ledgers if ledger.guarantee and ledger.guarantee["exploitations"]]
    if not guarantees:
        return []
    shares = np.mean([run["exceeding"] for run in guarantees], axis=0)
    points = zip(guarantees[0]["multiples"], shares.tolist(), strict=True)
    name = label.split(", ", 1)[1]  # all have the same L
    return [{"series": name, "x": x, "y": y} for x, y in points if y > 0]


def _caption() -> str:
    proven = {
        divisor: theory.correctness_bound(
            FINE.steps, actions=len(RELEVANT), features=len(RELEVANT), delta=DELTA, control_divisor=divisor
        )
        for divisor in DIVISORS
    }
    silent = ", ".join(str(divisor) for divisor, probability in proven.items() if probability == 0)
    allowed = theory.instantaneous_bound(COARSE.lipschitz, 0.5, 0.5)
    return (
        f"{len(RELEVANT)} actions and features, δ = {DELTA:g}. L = {COARSE.lipschitz:g}: {COARSE.steps:,} steps, "
        f"ρ = {COARSE.rho:g}, so that intervals stay halves and the bound is {allowed:g}. L = {FINE.lipschitz:g}: "
        f"{FINE.steps:,} steps, ρ = {FINE.rho:.2f}; its bounds are above 1 throughout, and rewards are in [0, 1]: they "
        "hold whatever is done. An exploitation could have failed where the worst action loses more than the bound. "
        "The constant needed is the largest loss of a run over L·(s + s′). The theorem speaks of divisor 1; for "
        f"divisors {silent} the probability that its proof gives is 0. The last line breaks the assumption: RELEAF is "
        "told an L that is a twentieth of the stream's."
    )
