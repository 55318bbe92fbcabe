"""`Apprentice`: a learner that watches an application decide, until it is shown to earn more."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from releaf._version import __version__
from releaf.arrays import Array
from releaf.core.runtime import state_file
from releaf.decision import ActionName, Decision
from releaf.policies.apprentice_comparison import ApprenticeComparison
from releaf.policies.apprentice_report import ApprenticeReport
from releaf.policies.argument_checks import positive, whole
from releaf.policies.costs import Costs
from releaf.policies.serialization import from_bytes, register
from releaf.policy import Policy, plain_name


@register
class Apprentice:
    """A learner that watches: the application decides, and reports each decision with its reward.

    Before it learns a reward, the learner chooses for the same context, which tells how often it agrees and what it
    would have earned. :meth:`promote` returns it for deciding as soon as it is shown to earn more.

    Parameters
    ----------
    policy
        A learner whose ``traits.learns_from_logs`` is True. From now on it learns by :meth:`observe` only.
    warm_up
        First decisions that teach the learner and are not compared. Fix it beforehand: the bounds hold for
        any number that does not depend on the results.

    Examples
    --------
    >>> import releaf
    >>> apprentice = releaf.Apprentice(releaf.LinUCB(["wait", "treat"], features=["age", "dose"]))
    >>> choice = apprentice.observe({"age": 0.3, "dose": 0.7}, "treat", 1.0, probability=0.5)
    >>> apprentice.report().decisions
    1
    >>> apprentice.promote(force=True)
    LinUCB(2 actions, 2 features, 1 decisions)
    """

    def __init__(self, policy: Policy, *, warm_up: int = 0) -> None:
        if not isinstance(policy, Policy):
            raise TypeError(f"policy must be a learner, such as releaf.AdaptiveReleaf(…), got {policy!r}")
        if not policy.traits.learns_from_logs:
            raise ValueError(
                f"policy is a {type(policy).__name__}, which can't learn the reward of one action that another system "
                "took: expected a policy whose traits.learns_from_logs is True"
            )
        self.warm_up = whole("warm_up", warm_up, least=0)
        self._policy = policy
        self._comparison = ApprenticeComparison()
        self._watched = 0
        self._promoted = False
        self._lock = threading.RLock()

    @property
    def policy(self) -> Policy:
        """The learner."""
        return self._policy

    @property
    def promoted(self) -> bool:
        """Whether the learner decides now, so that this apprentice watches no more."""
        return self._promoted

    @property
    def agreement(self) -> float | None:
        """Share of the compared decisions for which the learner chose the application's action; None without any."""
        return self._comparison.agreement

    def observe(
        self,
        context: Any,
        action: ActionName,
        reward: Any,
        *,
        probability: float | None = None,
        eligible: Sequence[ActionName] | None = None,
        cost: Costs | None = None,
    ) -> Decision:
        """Compare with a decision of the application, then learn its reward.

        Invalid input raises before anything changes.

        Parameters
        ----------
        context
            As for ``decide``.
        action
            The action that the application took.
        reward
            Its reward.
        probability
            The propensity of the action, in (0, 1]: 1 where the application decides without randomisation. None where
            it is unknown, which counts as 1.
        eligible
            Names of the actions that the application could take; None for all. The learner chooses among the same.
        cost
            Cost of each action this time, for a learner that weighs costs; None for its fixed ones. Actions of the
            application cost the learner nothing: with a ``spend_budget`` it chooses as before its first decision, with
            a weight of 0, and the budget begins to matter when it decides.

        Returns
        -------
        Decision
            What the learner would have decided, a preview; its reward can't be learnt by ``learn``.
        """
        with self._lock:
            if self._promoted:
                raise ValueError("the learner was promoted and decides now: use policy.decide and policy.learn")
            if probability is not None:
                positive("probability", probability, most=1.0)
            given: dict[str, Any] = {"eligible": eligible, "cost": cost}
            choice = self._policy.preview(
                context, **{name: value for name, value in given.items() if value is not None}
            )
            taken = plain_name(action)
            if choice.eligible is not None and taken in self._policy.actions and taken not in choice.eligible:
                raise ValueError(f"action {taken!r} was not eligible: expected one of {choice.eligible!r}")
            estimates = self._policy.estimate([context])[0]  # before the reward is learnt
            self._policy.observe(context, taken, reward, probability=probability)
            self._watched += 1
            if self._watched > self.warm_up:
                names = self._policy.actions
                expected = dict(zip(names, self._scaled(estimates).tolist(), strict=True))
                gained = float(self._scaled(np.array([reward], dtype=np.float64))[0])
                self._comparison.add(taken, choice.action, gained, probability, expected)
            return choice

    def _scaled(self, rewards: Array) -> Array:
        """Scale rewards to [0, 1], and what is beyond to the nearest."""
        low, high = self._policy.reward_range
        return np.clip((rewards - low) / (high - low), 0.0, 1.0)

    def report(self) -> ApprenticeReport:
        """Compare the learner with the application: agreement, rewards, and bounds that hold while one peeks."""
        with self._lock:
            found, (low, high) = self._comparison, self._policy.reward_range
            span, difference = high - low, _times(high - low, found.difference)
            earned, agreed = _times(span, found.application_reward), _times(span, found.agreed_reward)
            return ApprenticeReport(
                policy=type(self._policy).__name__,
                decisions=found.decisions,
                warm_up=min(self.warm_up, self._watched),
                agreement=found.agreement,
                recent_agreement=found.recent_agreement,
                application_reward=None if earned is None else low + earned,
                agreed_reward=None if agreed is None else low + agreed,
                low=span * found.low,
                high=span * found.high,
                difference=difference,
                learner_reward=None if earned is None or difference is None else low + earned + difference,
                modelled_difference=_times(span, found.modelled_difference),
                untested=found.untested,
                mean_weight=found.mean_weight,
                choices=found.choices(),
            )

    def promote(self, force: bool = False) -> Policy:
        """Return the learner for deciding, if it is shown to earn more than the application.

        Parameters
        ----------
        force
            Promote it without that evidence.

        Raises
        ------
        ValueError
            Unless the lower bound of the difference is above 0, or ``force``; or if it was promoted already.
        """
        with self._lock:
            if self._promoted:
                raise ValueError("the learner was promoted already and decides now: use apprentice.policy")
            report = self.report()
            if not (report.can_promote or force):
                raise ValueError(
                    f"the learner is not shown to earn more than the application: after {report.decisions:,} compared "
                    f"decisions its reward differs by {report.low:+.4g} to {report.high:+.4g}, with "
                    f"{report.untested:,} untested choices. Expected a lower bound above 0: observe more decisions, "
                    "randomise some of the application's and report their probability, or promote(force=True)"
                )
            self._promoted = True
            return self._policy

    def __repr__(self) -> str:
        agreement = "" if self.agreement is None else f", agreement {self.agreement:.1%}"
        return f"Apprentice({self._policy!r}, {self._comparison.decisions:,} compared{agreement})"

    # --- serialization

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the apprentice to a file atomically: the learner, and the comparison so far.

        ``releaf.load`` resumes exactly from it.
        """
        state_file.write(path, *self._contents())

    def to_bytes(self) -> bytes:
        """Serialize the apprentice to the bytes that ``save`` writes, which ``releaf.from_bytes`` loads."""
        return state_file.to_bytes(*self._contents())

    def _contents(self) -> tuple[dict[str, Any], dict[str, Array]]:
        with self._lock:
            header = {
                "class": type(self).__name__,
                "version": __version__,
                "warm_up": self.warm_up,
                "watched": self._watched,
                "promoted": self._promoted,
                "comparison": self._comparison.to_dict(),
            }
            return header, {"policy": np.frombuffer(self._policy.to_bytes(), dtype=np.uint8)}

    @classmethod
    def _revive(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self:
        apprentice = cls(from_bytes(arrays["policy"].tobytes()), warm_up=header["warm_up"])
        apprentice._watched = whole("watched", header["watched"], least=0)
        apprentice._promoted = bool(header["promoted"])
        apprentice._comparison = ApprenticeComparison.from_dict(header["comparison"])
        return apprentice


def _times(span: float, value: float | None) -> float | None:
    return None if value is None else span * value
