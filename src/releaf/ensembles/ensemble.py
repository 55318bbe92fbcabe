"""`Ensemble`: base class of weighted votes of base classifiers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from releaf.arrays import Array
from releaf.core.baselines.design_matrix import width_of
from releaf.core.baselines.voting import Votes, new_votes
from releaf.core.runtime.primitives import USED
from releaf.decision import ActionName
from releaf.ensembles.experts import Experts, encoded, schema_design
from releaf.policies.compiled import CompiledPolicy
from releaf.policy import Actions
from releaf.schema import Features, Schema


class Ensemble(CompiledPolicy):
    """Takes the action that the base classifiers vote for. A subclass defines how the weights are learnt.

    The base classifiers are fixed; only the weights of their votes may change. They never vote for an action that is
    added later, and no action can be removed. ``Decision.estimates`` are each action's share of the votes,
    from the lowest to the highest reward.

    A subclass sets its own parameters before it calls this constructor, which builds the state from them.
    """

    _observe: ClassVar[str] = "labels"
    _array_arguments = ("experts", "sample")
    _window = 1

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        experts: Experts,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_pending: int = 100_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        super().__init__(actions, features, self._observe, seed, max_pending, reward_range)
        if not isinstance(experts, Experts):
            raise TypeError(f"experts must come from releaf.ensembles.train_experts, got {experts!r}")
        no_contexts = np.zeros((0, len(self.schema.inputs)))
        encoded(no_contexts, self.schema)  # raises for features that can't be encoded in advance
        self._design = schema_design(self.schema)
        if experts.actions != self.actions:
            raise ValueError(f"experts were trained for the actions {experts.actions!r}, expected {self.actions!r}")
        if experts.schema.to_dict() != self.schema.to_dict():
            raise ValueError(f"experts were trained for {experts.schema!r}, expected {self.schema!r}")
        expected = (len(self.actions), width_of(self._design, intercept=False))
        if experts.coefficients.shape[1:] != expected:
            raise ValueError(f"experts have coefficients of shape {experts.coefficients.shape}, not (E, *{expected})")
        self._experts = experts
        self._sample = 0
        self._set_control(control_share, control)
        self._start()

    @property
    def _rule(self) -> tuple[float, float]:
        """Kernel parameters of the learning rule."""
        return 0.0, 0.0

    def _build(self, actions: int) -> Votes:
        return new_votes(
            self._entry_points.state,
            self.seed,
            self.schema.lowest(),
            self._design,
            self._experts.coefficients,
            self._experts.intercepts,
            actions=actions,
            window=self._window,
            params=self._rule,
        )

    def _learn(self, context: Array, step: int, index: int, reward: float) -> None:
        raise NotImplementedError("an ensemble learns from labels, the rewards of all actions")

    def _learn_all(self, context: Array, step: int, rewards: Array) -> None:
        self._entry_points.learn(self._pointer_table, context, step, rewards)

    def _remove_action(self, index: int) -> None:
        raise ValueError(
            f"{type(self).__name__} can't remove action {self.actions[index]!r}, which its base classifiers vote for: "
            "train others without it"
        )

    @property
    def prior_labels(self) -> int:
        """Number of labels used to train the base classifiers and the weights of their votes."""
        return self._experts.labels + self._sample

    @property
    def weight_labels(self) -> int:
        """Number of those labels that were used for the weights."""
        return self._sample

    def weights(self) -> Array:
        """Weight of each base classifier's vote; the weights add up to 1."""
        with self._lock:
            shares: Array = self._state.weights / self._state.weights.sum()
            return shares

    # --- saving and loading: the base classifiers are arrays, so they are saved with what was learnt -------

    def _arrays(self) -> dict[str, Array]:
        return {**super()._arrays(), "labels": np.array([self._experts.labels, self._sample])}

    def _load_state(self, arrays: dict[str, Array]) -> None:
        if arrays["labels"].shape != (2,) or (arrays["labels"] < 0).any():
            raise ValueError("its labels contradict the rest")
        super()._load_state(arrays)
        self._sample = int(arrays["labels"][1])

    def _check_state(self, state: Any) -> None:
        if (state.weights < 0).any() or not state.weights.sum() > 0 or not 0 <= state.clock[USED] <= self._steps:
            raise ValueError("its weights contradict the rest")

    @classmethod
    def _constructor_arrays(cls, header: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
        coefficients, intercepts = arrays["policy.coefficients"], arrays["policy.intercepts"]
        actions, schema = tuple(header["actions"]), Schema.from_dict(header["schema"])
        return {"experts": Experts(coefficients, intercepts, int(arrays["policy.labels"][0]), actions, schema)}
