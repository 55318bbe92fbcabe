"""Uniform random policy: the lower baseline for every other policy."""

from __future__ import annotations

from releaf.core.baselines.context_free import UNIFORM_RANDOM, Uniform, new_uniform
from releaf.policies.compiled import CompiledPolicy
from releaf.policies.policy_export import Rule
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits


class Random(CompiledPolicy):
    """Takes every action with the same probability. It requests no reward, and every decision is an exploration.

    Its log, with uniform propensities, is ideal for off-policy evaluation.

    Parameters
    ----------
    actions, features, seed, reward_range
        As for :class:`releaf.Releaf`.

    Examples
    --------
    >>> import releaf
    >>> releaf.Random(actions=4, features=2, seed=0).decide([0.5, 0.5]).probability
    0.25
    """

    traits = Traits(
        "Random",
        "the paper's draft",
        learns_online=False,
        uses_context=False,
        observes="nothing",
        learns_from_logs=False,
    )
    _entry_points = UNIFORM_RANDOM

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        super().__init__(actions, features, "never", seed, reward_range=reward_range)
        self._start()

    def _build(self, actions: int) -> Uniform:
        return new_uniform(self.seed, self.schema.lowest(), actions)

    def _freeze_rule(self) -> Rule:
        return lambda: {"kind": "random"}
