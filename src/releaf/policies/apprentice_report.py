"""`ApprenticeReport`: how often a learner agrees with an application, and what it would have earned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from releaf.decision import ActionName
from releaf.html_table import html_table


@dataclass(frozen=True, slots=True, repr=False)
class ApprenticeReport:
    """Comparison of a learner with the application that it watches, on the same decisions.

    The difference is the mean, over the compared decisions, of the expected reward of the action that the learner would
    have taken less that of the application's action. The learner is as it was before each reward, so the mean covers
    its whole apprenticeship. Rewards are in the learner's units.

    Attributes
    ----------
    policy
        Class of the learner.
    decisions
        Number of compared decisions.
    warm_up
        Decisions before them that only taught the learner.
    agreement
        Share of the decisions for which the learner chose the application's action; None before there are any.
    recent_agreement
        The same for the latest 1,000 decisions.
    application_reward
        Mean reward of the application.
    agreed_reward
        Mean reward of the decisions for which both chose the same action, of which both earn the same. It says nothing
        of the other decisions.
    low, high
        Bounds of the difference. Each holds at all times at once with 97.5 %, so one may read them after every reward.
        They assume nothing about actions that the application never takes.
    difference
        Doubly robust estimate of the difference; None where rewards do not determine it.
    learner_reward
        What the learner would have earned, by this estimate; None with it.
    modelled_difference
        The difference if the learner's own estimates were right (direct method). No reward checks it for actions
        that the application does not take: it is no evidence, and promotion does not use it.
    untested
        Decisions that the learner would have taken differently, and whose probability is 1 or unknown: nothing tells
        what its action would have earned.
    mean_weight
        Mean importance weight: about 1 if the application sometimes takes every action that the learner chooses. If it
        is less, the actions that the application never takes are missing from the estimate.
    choices
        How often the application took an action while the learner chose another or the same, by both names.
    """

    policy: str
    decisions: int
    warm_up: int
    agreement: float | None
    recent_agreement: float | None
    application_reward: float | None
    agreed_reward: float | None
    low: float
    high: float
    difference: float | None
    learner_reward: float | None
    modelled_difference: float | None
    untested: int
    mean_weight: float | None
    choices: dict[ActionName, dict[ActionName, int]]

    @property
    def can_promote(self) -> bool:
        """Whether the learner is shown to earn more than the application, since ``low`` is above 0."""
        return self.low > 0.0

    @property
    def text(self) -> str:
        """The report for people."""
        rows = list(self._rows())
        width = max(len(name) for name, _ in rows)
        title = f"{self.policy}, apprentice in {self.decisions:,} compared decisions"
        return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in rows), *self._notes()])

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain values, with ``can_promote``."""
        values = {name: getattr(self, name) for name in self.__slots__}
        counts = {taken: dict(chosen) for taken, chosen in self.choices.items()}
        return values | {"choices": counts, "can_promote": self.can_promote}

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """For notebooks."""
        title = f"{self.policy}, apprentice in {self.decisions:,} compared decisions"
        return html_table(["measure", "value"], self._rows(), title=title, notes=self._notes())

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "agreement", f"{_percent(self.agreement)} (latest 1,000: {_percent(self.recent_agreement)})"
        yield "application's mean reward", _number(self.application_reward)
        yield "mean reward where they agree", _number(self.agreed_reward)
        yield "learner's mean reward", _number(self.learner_reward)
        yield "learner - application", _number(self.difference, sign=True)
        yield "its bounds, at all times", f"{self.low:+.4g} to {self.high:+.4g}"
        yield "by the learner's own model", f"{_number(self.modelled_difference, sign=True)} (no evidence)"
        yield "promotion", "allowed" if self.can_promote else "not allowed: the lower bound is not above 0"

    def _notes(self) -> list[str]:
        if not self.untested:
            return []
        return [
            f"In {self.untested:,} decisions the learner chose another action, and the application decided without "
            "randomisation or reported no probability: their rewards are unknown, the bounds allow for any."
        ]


def _number(value: float | None, *, sign: bool = False) -> str:
    return "unknown" if value is None else f"{value:{'+' if sign else ''}.4g}"


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.1%}"
