"""What decisions cost in all when every observed reward has a price."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from releaf.evaluate import Ledger, Run
from releaf.paper.experiment import Results
from releaf.paper.settings import SETTINGS_TEXT, releaf_arguments
from releaf.report.figures import Column, Figures, Line, Picture

STEPS = 10_000
PRICES = (0.001, 0.01, 0.1, 1.0)  # c_O, in units of the reward
STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "breast cancer": ("breast_cancer", {}),
    "generated stream": ("generate", {"features": 10, "actions": 3, "lipschitz": 1.0, "noise": 0.1}),
}
# They don't know the price, so one run tells their cost at every price.
UNAWARE: dict[str, tuple[str, dict[str, Any]]] = {
    "RELEAF": ("Releaf", releaf_arguments()),
    "RELEAF-FO": ("Releaf", releaf_arguments("all-actions")),
    "RELEAF-ALL": ("Releaf", releaf_arguments("always")),
    "AdaptiveReleaf, always": ("AdaptiveReleaf", {}),
}
AWARE = "AdaptiveReleaf, price known"


class Cost(NamedTuple):
    """The runs of one policy on one stream at one price: total cost, and labels, of each."""

    stream: str
    policy: str
    price: float
    totals: list[float]
    labels: list[float]


class Price:
    """Total cost against the price of a label."""

    name = "price"
    title = "The price of a label"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        steps = STEPS // 10 if quick else STEPS
        runs = []
        for where, (stream, given) in STREAMS.items():
            for seed in range(seeds):
                cases = {"steps": steps, "seed": seed, **given}
                made: dict[str, Any] = {"stream": stream, "stream_arguments": cases, "seed": seed}
                for name, (policy, arguments) in UNAWARE.items():
                    if name == "RELEAF-FO" and stream == "generate":
                        continue  # no single label tells the rewards of three actions there
                    runs.append(Run(label=f"{name}; {where}", policy=policy, policy_arguments=arguments, **made))
                for price in PRICES:
                    known: dict[str, Any] = {
                        "policy": "AdaptiveReleaf",
                        "policy_arguments": {"observation_cost": price},
                    }
                    runs.append(Run(label=f"{AWARE}; {where}; {price:g}", **known, **made))
        return runs

    def figures(self, results: Results) -> list[Figures]:
        return [_table(where, [cost for cost in costs(results) if cost.stream == where]) for where in STREAMS]

    def pictures(self, results: Results) -> list[Picture]:
        caption = "Means with 95 % intervals over the runs; both axes are logarithmic."
        pictures = []
        for where in STREAMS:
            rows = [
                {"series": cost.policy, "x": cost.price, "y": total}
                for cost in costs(results)
                if cost.stream == where
                for total in cost.totals
            ]
            title = f"Total cost against the price of a label, {where}"
            pictures.append(
                Picture(title, "means", rows, "price of a label (c_O)", "regret + price × labels", "", True, caption)
            )
        return pictures


def total_cost(ledger: Ledger, price: float) -> float:
    """Regret and what observing costs at a price (eq. 1); on labelled data regret is the number of errors."""
    return ledger.regret - ledger.observation_cost + price * ledger.labels


def costs(results: Results) -> list[Cost]:
    """The cost of every policy on every stream at every price that there are runs of."""
    known = []
    for label, ledgers in results.items():
        policy, where, *prices = label.split("; ")
        for price in [float(text) for text in prices] or PRICES:
            totals = [total_cost(ledger, price) for ledger in ledgers]
            known.append(Cost(where, policy, price, totals, [float(ledger.labels) for ledger in ledgers]))
    return known


def _table(where: str, known: Sequence[Cost]) -> Figures:
    """A line for each policy: its cost at every price, and its labels at the lowest and the highest one."""
    columns = tuple(Column(f"cost at {price:g}", digits=0) for price in PRICES)
    columns += tuple(Column(f"labels at {price:g}", digits=0) for price in (PRICES[0], PRICES[-1]))
    lines = []
    for policy in (*UNAWARE, AWARE):
        at = {cost.price: cost for cost in known if cost.policy == policy}
        if at:
            ours = (*(at[price].totals for price in PRICES), at[PRICES[0]].labels, at[PRICES[-1]].labels)
            lines.append(Line(policy, (None,) * len(columns), ours))
    caption = (
        f"{STEPS:,} decisions. Cost is the regret (on breast cancer the number of errors) plus price × labels. Only "
        "AdaptiveReleaf with `observation_cost` knows the price; the decisions of the others are the same at every "
        "price. RELEAF-FO pays once for the rewards of all actions, which one label tells on breast cancer. RELEAF: "
        f"{SETTINGS_TEXT}."
    )
    return Figures(f"Total cost at prices of a label, {where}", columns, lines, caption)
