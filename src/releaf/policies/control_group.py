"""Control group of a policy: a fixed share of decisions that a uniform draw or a named action decides.

Whether a decision belongs to control, and what a uniform draw takes, follows from the learner's seed and the decision's
number alone. So a replay, single decisions, batches, copies and loaded learners have the same groups.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from releaf.arrays import Array
from releaf.control_lift import ControlLift, GroupSums
from releaf.decision import CONTROL, LEARNER, ActionName
from releaf.decision_batch import Selection, Selections
from releaf.policies.argument_checks import positive
from releaf.policies.costs import CostWeighing
from releaf.policies.eligibility import Restriction
from releaf.policy import plain_name
from releaf.traits import Traits

UNIFORM = "uniform"
_WORD = 2**64 - 1


def counted_word(key: int, step: int, draw: int) -> int:
    """Random 64 bits of a step, from splitmix64 of a counter: equal arguments give equal bits."""
    word = key & _WORD
    for part in (key >> 64, step, draw):
        word = _mixed((word + (part & _WORD) * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15) & _WORD)
    return word


def _mixed(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)


class ControlGroup(Restriction, CostWeighing):
    """Mixin of a policy: leaves a share of its decisions to control."""

    traits: ClassVar[Any]
    control_share: float = 0.0
    control: ActionName = UNIFORM
    observation_mode: str
    _groups: GroupSums | None = None  # with a control share
    _action_names: tuple[ActionName, ...]
    _always_wants: bool
    _steps: int
    _token: int
    _lock: threading.RLock
    _low: float

    @abstractmethod
    def _choose(self, context: Array) -> Selection: ...

    @abstractmethod
    def _choose_all(self, units: Array, masks: Array | None = None, costs: Array | None = None) -> Selections: ...

    @abstractmethod
    def _changed_by_decision(self) -> dict[str, Array]: ...

    @abstractmethod
    def _undo_decision(self, arrays: dict[str, Array]) -> None: ...

    def _set_control(self, control_share: Any, control: Any) -> None:
        """Validate and set the parameters of the control group."""
        self.control_share = positive("control_share", control_share, below=1.0, zero=True)
        self.control = self._checked_control(control)
        if not self.control_share:
            return
        if not self._always_wants:
            raise ValueError(
                f"control_share={control_share!r} needs a learner that learns the reward of every decision, since the "
                f"groups are compared by them: expected observe='always' or 'labels', and no rule that requests "
                f"rewards, got a {type(self).__name__} with observe={self.observation_mode!r}"
            )
        self._groups = GroupSums(self.control_share)

    def _checked_control(self, control: Any) -> ActionName:
        """Validate ``control``; a state file and a request may have a name as text."""
        name, traits = plain_name(control), self.traits
        if name == UNIFORM:
            return name
        if not self._action_names and isinstance(traits, Traits) and traits.takes_action_features:
            return name  # of an action that comes with a request
        by_text = {str(action): action for action in self._action_names} | {one: one for one in self._action_names}
        if name not in by_text:
            raise ValueError(
                f"control must be {UNIFORM!r} or the name of an action, got control={control!r}: the actions are "
                f"{self._action_names!r}"
            )
        return by_text[name]

    # --- groups ---------------------------------------------------------------------------------------------

    @property
    def _control_key(self) -> int:
        seed: int | None = getattr(self, "seed", None)
        return self._token if seed is None else seed

    def _is_control(self, step: int) -> bool:
        """Whether a decision, given by its number, belongs to control."""
        return counted_word(self._control_key, step, 0) < self.control_share * 2.0**64

    def group_of(self, step: int) -> str | None:
        """Group of a decision, given by its number: "control" or "learner"; None without a control share."""
        if not self.control_share:
            return None
        return CONTROL if self._is_control(step) else LEARNER

    def _control_marks(self, first: int, count: int) -> Array | None:
        """Which of so many decisions belong to control; None without a control share."""
        if not self.control_share:
            return None
        return np.array([self._is_control(step) for step in range(first, first + count)], dtype=np.bool_)

    # --- decisions ------------------------------------------------------------------------------------------

    def _choose_among(self, unit: Array, mask: Array | None, costs: Array | None = None) -> Selection:
        """Choose for the group of the next decision, among the eligible actions; control's must be affordable too."""
        if not self.control_share:
            return self._choose_own(unit, mask, costs)
        places = list(range(len(self._action_names))) if mask is None else np.flatnonzero(mask).tolist()
        places = self._affordable(places, costs)
        if len(places) < 2:
            return self._choose_own(unit, mask, costs)
        if self._is_control(self._steps + 1):
            return self._choose_for_control(unit, mask, costs, places)
        action, explored, chance, estimates, relevant = self._choose_own(unit, mask, costs)
        return action, explored, self._total(chance, action, places), estimates, relevant

    def _choose_own(self, unit: Array, mask: Array | None, costs: Array | None) -> Selection:
        """Let the learner choose."""
        with self._restricted_to(mask), self._priced_at(costs):
            return self._choose(unit)

    def _choose_for_control(self, unit: Array, mask: Array | None, costs: Array | None, places: list[int]) -> Selection:
        """Take control's action; the learner treats it as the only eligible one."""
        named, step = self._named_control(places), self._steps + 1
        action = places[counted_word(self._control_key, step, 1) % len(places)] if named is None else named
        changed = self._changed_by_decision()
        with self._restricted_to(mask), self._priced_at(costs):
            taken, _, chance, *_ = self._choose(unit)
            own = chance if taken == action or chance is None else self._chance_of_other(action, taken, chance)
        self._undo_decision(changed)
        only = np.zeros(len(self._action_names), dtype=np.uint8)
        only[action] = 1
        self._choose_own(unit, only, costs)
        return action, True, self._total(own, action, places), None, None

    def _named_control(self, places: list[int]) -> int | None:
        """Position of control's action; None where control draws uniformly, also if that action is not possible."""
        if self.control == UNIFORM or self.control not in self._action_names:
            return None
        place = self._action_names.index(self.control)
        return place if place in places else None

    def _total(self, own: float | None, action: int, places: list[int]) -> float | None:
        """Probability of an action over both groups, from the learner's own."""
        if own is None:
            return None
        named = self._named_control(places)
        other = 1.0 / len(places) if named is None else float(action == named)
        return (1.0 - self.control_share) * own + self.control_share * other

    def _chance_of_other(self, other: int, taken: int, chance: float) -> float | None:
        """Probability with which the latest decision could have taken another action; None where it is unknown.

        Policies that randomise override it, and ask this one first.
        """
        return 0.0 if chance == 1.0 else None

    def _choose_rows(self, units: Array, masks: Array | None = None, costs: Array | None = None) -> Selections:
        """Choose for encoded contexts, one by one where a share of them belongs to control."""
        if not self.control_share:
            return self._choose_all(units, masks, costs)
        first, actions, rows = self._steps, len(self._action_names), []
        try:
            for row, unit in enumerate(units):
                mask, own = None if masks is None else masks[row], None if costs is None else costs[row]
                selection = self._choose_among(unit, mask, own)
                rows.append(_with_all_estimates(selection, mask, actions))
                self._steps += 1
        finally:
            self._steps = first
        return Selections.collect(rows, actions)

    # --- rewards ----------------------------------------------------------------------------------------------

    def _count_reward(self, step: int, reward: float) -> None:
        """Count the reward of a decision, scaled to [0, 1], for its group."""
        if self._groups is not None and step > self._groups.since:
            self._groups.add(self._is_control(step), float(reward))

    def lift(self) -> ControlLift:
        """By how much the learner earns more per decision than its control group.

        Its bounds hold at all times at once, so that one may look after every reward and stop whenever they tell
        enough. Rewards that come late count when they come; those that never come count for neither group, which
        biases the lift if they are missing more often in one of them.

        Examples
        --------
        >>> import numpy as np, releaf
        >>> bandit = releaf.LinUCB(actions=2, features=1, seed=0, control_share=0.2)
        >>> for context in np.random.default_rng(0).random((3_000, 1)):
        ...     choice = bandit.decide(context)
        ...     bandit.learn(choice, float(choice.index == (context[0] > 0.5)))
        >>> lift = bandit.lift()
        >>> lift.lower > 0.3, lift.is_shown, lift.control_rewards
        (True, True, 598)
        """
        with self._lock:
            if self._groups is None:
                raise ValueError(
                    f"this {type(self).__name__} has no control group: expected control_share above 0 in its "
                    "constructor"
                )
            return self._groups.lift(self._low, self._span)

    def restart_lift(self) -> None:
        """Count rewards of later decisions only for the lift, for instance because others took the actions before."""
        with self._lock:
            if self._groups is not None:
                self._groups = GroupSums(self.control_share, since=self._steps)

    def _merge_groups(self, one: ControlGroup, other: ControlGroup) -> None:
        """Take over the rewards of both groups of merged learners, if they have the same share."""
        if one._groups is not None and other._groups is not None and one.control_share == other.control_share:
            self._groups = one._groups.merge(other._groups)


def _with_all_estimates(selection: Selection, mask: Array | None, actions: int) -> Selection:
    """A selection with a place for each action's estimate, where a policy estimates the eligible ones only."""
    action, explored, chance, estimates, relevant = selection
    if estimates is None or mask is None or len(estimates) == actions:
        return selection
    row = np.full(actions, np.nan)
    row[np.flatnonzero(mask)] = estimates
    return action, explored, chance, tuple(row.tolist()), relevant
