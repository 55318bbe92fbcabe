"""Running comparison of a learner with an application: agreement, bounds, and doubly robust estimate."""

from __future__ import annotations

import math
from collections import Counter, deque
from typing import Any, Self

from releaf.confidence_sequence import LowerBound, PairedDifference
from releaf.decision import ActionName
from releaf.statistics import is_weight_supported

RECENT = 1_000  # decisions


class ApprenticeComparison:
    """Sums over decisions from which the difference of the learner and the application follows, scaled to [0, 1].

    With the application's reward r and propensity p, the weight w is 1/p where the learner chose the same action,
    else 0; without a propensity it is 1 for 1/p. Where both agree they earn the same, so that the mean of (w - 1) r is
    then at most the true difference, and that of (w - 1) (1 - r) at most its negative: bounds hold for every
    application.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[ActionName, ActionName]] = Counter()  # by the application's and the learner's
        self._recent: deque[bool] = deque(maxlen=RECENT)
        self._paired = PairedDifference()
        self._w = self._ww = 0.0
        self._agreed_rewards = 0.0
        self._robust = 0.0  # sum of doubly robust differences
        self._modelled = 0.0  # sum of differences by the learner's estimates
        self._unmodelled = 0  # decisions without estimates
        self.untested = 0

    def add(
        self,
        taken: ActionName,
        chosen: ActionName,
        reward: float,
        probability: float | None,
        expected: dict[ActionName, float],
    ) -> None:
        """Add a decision.

        Parameters
        ----------
        taken, reward, probability
            Action, scaled reward and propensity of the application.
        chosen, expected
            Action and estimates of the learner before it learnt the reward; NaN where it has no estimate.
        """
        agrees = taken == chosen
        weight = 1.0 / (probability or 1.0) if agrees else 0.0
        self._counts[taken, chosen] += 1
        self._recent.append(agrees)
        self._paired.add(weight, reward)
        self._agreed_rewards += reward if agrees else 0.0
        self._w += weight
        self._ww += weight * weight
        self.untested += not agrees and (probability is None or probability >= 1.0)
        of_taken, of_chosen = expected[taken], expected[chosen]
        if math.isnan(of_taken) or math.isnan(of_chosen):
            self._unmodelled += 1
            self._robust += (weight - 1.0) * reward  # without a model it is inverse propensity scoring
            return
        self._robust += of_chosen + weight * (reward - of_taken) - reward
        self._modelled += 0.0 if agrees else of_chosen - reward

    @property
    def decisions(self) -> int:
        """Number of compared decisions."""
        return self._paired.count

    @property
    def _agreed(self) -> int:
        return sum(count for (taken, chosen), count in self._counts.items() if taken == chosen)

    @property
    def agreement(self) -> float | None:
        """Share of decisions with the same action."""
        return self._agreed / self.decisions if self.decisions else None

    @property
    def agreed_reward(self) -> float | None:
        """Mean reward of the decisions with the same action."""
        return self._agreed_rewards / self._agreed if self._agreed else None

    @property
    def mean_weight(self) -> float | None:
        """Mean of the weights; about 1 if the application sometimes takes every action that the learner chooses."""
        return self._w / self.decisions if self.decisions else None

    @property
    def recent_agreement(self) -> float | None:
        """Share of the latest decisions with the same action."""
        return sum(self._recent) / len(self._recent) if self._recent else None

    @property
    def application_reward(self) -> float | None:
        """Mean reward of the application."""
        return self._paired.mean_in_charge

    @property
    def low(self) -> float:
        """Lower bound of the difference, at all times at once with 97.5 %."""
        return self._paired.low

    @property
    def high(self) -> float:
        """Upper bound of the difference, at all times at once with 97.5 %."""
        return self._paired.high

    @property
    def difference(self) -> float | None:
        """Doubly robust estimate; None if the application never takes some of the learner's actions."""
        tested = not self.untested and is_weight_supported(self._w, self._ww, self.decisions)
        return self._robust / self.decisions if tested else None

    @property
    def modelled_difference(self) -> float | None:
        """Direct method; None if the learner had no estimate for some decisions."""
        return self._modelled / self.decisions if self.decisions and not self._unmodelled else None

    def choices(self) -> dict[ActionName, dict[ActionName, int]]:
        """Counts by the application's action, then by the learner's."""
        table: dict[ActionName, dict[ActionName, int]] = {}
        for (taken, chosen), count in self._counts.items():
            table.setdefault(taken, {})[chosen] = count
        return table

    def to_dict(self) -> dict[str, Any]:
        """All sums as JSON has them."""
        return {
            "choices": [[taken, chosen, count] for (taken, chosen), count in self._counts.items()],
            "recent": "".join("01"[agrees] for agrees in self._recent),
            "rewards": self._paired.rewards,
            "gain": [self._paired.gain.count, self._paired.gain.total, self._paired.gain.squares],
            "loss": [self._paired.loss.count, self._paired.loss.total, self._paired.loss.squares],
            "weights": [self._w, self._ww],
            "agreed_rewards": self._agreed_rewards,
            "robust": self._robust,
            "modelled": self._modelled,
            "unmodelled": self._unmodelled,
            "untested": self.untested,
        }

    @classmethod
    def from_dict(cls, sums: dict[str, Any]) -> Self:
        """Rebuild a comparison from ``to_dict``."""
        made = cls()
        made._counts.update({(taken, chosen): count for taken, chosen, count in sums["choices"]})
        made._recent.extend(mark == "1" for mark in sums["recent"])
        made._paired = PairedDifference(sums["rewards"], LowerBound(*sums["gain"]), LowerBound(*sums["loss"]))
        made._w, made._ww = sums["weights"]
        made._agreed_rewards = sums["agreed_rewards"]
        made._robust, made._modelled = sums["robust"], sums["modelled"]
        made._unmodelled, made.untested = sums["unmodelled"], sums["untested"]
        return made
