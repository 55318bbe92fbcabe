"""Optional methods of a policy, which raise unless its class supports them."""

from __future__ import annotations

from inspect import signature
from typing import Any, ClassVar

from releaf.decision import ActionName
from releaf.explanation import Explanation
from releaf.inspection import Effect, Interval, IntervalReward
from releaf.policies.policy_export import Exportable
from releaf.relevance_table import RelevanceTable
from releaf.traits import Traits


class OptionalMethods:
    """Mixin with the methods that some classes override; ``traits`` tells which."""

    traits: ClassVar[Traits]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "traits"):
            flags = {flag: getattr(cls, name) != getattr(base, name) for (base, name), flag in CAPABILITIES.items()}
            takes_range = "reward_range" in signature(cls).parameters
            cls.traits = cls.traits._replace(**flags, has_reward_range=takes_range)

    def merge(self, other: Any) -> Any:
        """Merge this learner with another, if its class supports it: see :meth:`releaf.Releaf.merge`."""
        raise TypeError(f"{type(self).__name__} can't be merged: AdaptiveReleaf, Releaf and GreedyReleaf can")

    def relevance(self) -> RelevanceTable:
        """Relevance of each feature to each action (A × D), by name too, if ``traits.finds_relevance``."""
        raise self._unsupported("relevance")

    def explain(self, choice: Any) -> Explanation:
        """Explain a decision, or that for a context, if ``traits.explains``."""
        raise self._unsupported("explanations")

    def partition(self, feature: int | str) -> list[Interval]:
        """Current intervals of a feature, if ``traits.has_intervals``."""
        raise self._unsupported("intervals")

    def interval_rewards(self, feature: int | str) -> list[list[IntervalReward]]:
        """Reward statistics of each action in each interval of a feature, if ``traits.has_intervals``."""
        raise self._unsupported("intervals")

    def effect(self, feature: int | str) -> dict[ActionName, list[Effect]]:
        """Effect of a feature's values on each action's estimate, if ``traits.has_effects``."""
        raise self._unsupported("effects")

    def _unsupported(self, what: str) -> TypeError:
        return TypeError(f"{type(self).__name__} has no {what}: AdaptiveReleaf has most; see the traits of a policy")


# The capability that each method, of a base class, gives to a class that overrides it.
CAPABILITIES: dict[tuple[type[Any], str], str] = {
    (OptionalMethods, "relevance"): "finds_relevance",
    (OptionalMethods, "merge"): "mergeable",
    (OptionalMethods, "explain"): "explains",
    (OptionalMethods, "partition"): "has_intervals",
    (OptionalMethods, "effect"): "has_effects",
    (Exportable, "_freeze_rule"): "exportable",
}
