"""The synthetic experiment of the paper's draft, and Lemma 1."""

from __future__ import annotations

from typing import Any

from releaf.evaluate import Run
from releaf.paper.experiment import Results, curves, line, seeded_runs, shares
from releaf.report.figures import Column, Figures, Line, Picture
from releaf.streams.synthetic import DRAFT_RELEVANCE

# "Rewards are also observed in exploitations": the draft's figures come out where those of *all* actions are.
SETTINGS: dict[str, Any] = {"lipschitz": 1.0, "delta": 0.1, "observe": "labels", "control_divisor": 5000}
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "RELEAF": ("Releaf", SETTINGS),
    "RELEAF, divided by 200": ("Releaf", {**SETTINGS, "control_divisor": 200}),
    "RELEAF, chosen action only": ("Releaf", {**SETTINGS, "observe": "always"}),
    "LinUCB": ("LinUCB", {}),
    "UCB1": ("UCB1", {}),
    "CZ": ("ContextualZooming", {}),
}
FOUND = tuple(name for name in POLICIES if name.startswith("RELEAF"))  # which tell what is relevant
PAPER = (0.56, 0.02, 0.58)  # mean reward, regret a step, best possible
PAPER_RELEVANT = (0.939, 0.948, 0.955, 0.976, 0.954)  # share of exploitations that found each action's feature
REWARDS = (
    Column("mean reward", lambda ledger: ledger.reward, 3),
    Column("regret a step", lambda ledger: ledger.regret / ledger.steps, 3),
    Column("best possible", lambda ledger: ledger.best_reward, 3),
    Column("explorations", lambda ledger: float(ledger.explored), 0),
)
LOSSES = (
    Column("regret a step", lambda ledger: ledger.regret / ledger.steps, 4),
    Column("in the last half", lambda ledger: _late(ledger), 4),
)


def _late(ledger: Any) -> float:
    """Regret a step over the last half."""
    steps, regret = ledger.curves["steps"], ledger.curves["regret"]
    middle = next(index for index, step in enumerate(steps) if step >= ledger.steps / 2)
    return float((regret[-1] - regret[middle]) / (steps[-1] - steps[middle]))


class Synthetic:
    """The draft's synthetic stream: rewards, and whether each action's relevant feature is found."""

    name = "synthetic"
    title = "Synthetic stream"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        steps = 10_000 if quick else 50_000
        policies = POLICIES.items()
        return [run for name, made in policies for run in seeded_runs(seeds, name, *made, "draft", {"steps": steps})]

    def figures(self, results: Results) -> list[Figures]:
        rewards = [line(name, REWARDS, results, PAPER if name == "RELEAF" else ()) for name in results]
        columns = tuple(Column(name.removeprefix("RELEAF, "), digits=3) for name in FOUND)
        found = []
        for action, feature in enumerate(DRAFT_RELEVANCE):
            ours = tuple(
                [ledger.relevance[action][feature - 1] for ledger in results[name] if ledger.relevance]
                for name in FOUND
            )
            paper = (PAPER_RELEVANT[action], None, None)
            found.append(Line(f"action {action + 1}, feature {feature}", paper, ours))
        return [
            Figures(
                "Synthetic stream of the draft: 12 features, 5 actions",
                REWARDS,
                rewards,
                "ρ = 2+2√2, L = 1, δ = 0.1 as in the draft; control numbers divided by 5000, which it does not tell, "
                "or as named. RELEAF observes the rewards of all actions at every step, or that of the chosen action "
                "only, as LinUCB, UCB1 and CZ do. Rewards are cut off at 0 and 1 here, which moves their means.",
            ),
            Figures("How often RELEAF finds the relevant feature, share of exploitations", columns, found),
        ]

    def pictures(self, results: Results) -> list[Picture]:
        table = shares(results, "RELEAF")
        rows = [
            {"x": f"{feature + 1}", "y": f"action {action + 1}", "value": float(table[action][feature])}
            for action in range(table.shape[0])
            for feature in range(table.shape[1])
        ]
        regret = curves(results, results, "regret")
        return [
            Picture("Synthetic stream: relevance found by RELEAF", "heat", rows, "feature", "", "share"),
            Picture("Synthetic stream: regret over time", "lines", regret, "step", "regret so far"),
        ]


class Lemma1:
    """Lemma 1: judging features one by one loses without end, judging them in pairs does not."""

    name = "lemma1"
    title = "Lemma 1"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        steps = 50_000 if quick else 400_000
        return [
            run
            for name, policy in {"RELEAF": "Releaf", "Greedy-RELEAF": "GreedyReleaf"}.items()
            for run in seeded_runs(seeds, name, policy, {"control_divisor": 50}, "lemma1", {"steps": steps})
        ]

    def figures(self, results: Results) -> list[Figures]:
        lines = [line(name, LOSSES, results) for name in results]
        caption = (
            "The lemma's loss for ever is 0.1 a step: half of the reward on a fifth of the steps. "
            "Control numbers divided by 50."
        )
        return [Figures("Lemma 1", LOSSES, lines, caption)]

    def pictures(self, results: Results) -> list[Picture]:
        rows = curves(results, results, "regret")
        return [Picture("Lemma 1: regret over time", "lines", rows, "step", "regret so far")]
