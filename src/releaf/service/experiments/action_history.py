"""Action history: the actions of an experiment over time, and rewards of decisions made with earlier ones."""

from __future__ import annotations

from typing import Any

from releaf.service.errors import invalid_request
from releaf.service.log.events import ExperimentAction
from releaf.service.messages import RewardRules

Reward = float | list[float] | dict[str, float]


class ActionHistory:
    """The actions available at each decision.

    Parameters
    ----------
    versions
        Pairs of the last decision before a change and the actions after it; the first pair has the initial actions.
    """

    def __init__(self, versions: list[tuple[int, list[ExperimentAction]]]) -> None:
        self.versions = versions

    def append(self, decision: int, actions: list[ExperimentAction]) -> None:
        """Add the actions that are available after a decision."""
        self.versions.append((decision, actions))

    def at(self, decision: int) -> list[ExperimentAction]:
        """The actions that a decision chose from."""
        since, actions = self.versions[-1]
        if decision > since:
            return actions
        return next(actions for before, actions in reversed(self.versions) if before < decision)

    def remaining(self, decision: int) -> list[ExperimentAction]:
        """The actions that were available at a decision, and have been ever since."""
        later = [actions for since, actions in self.versions if since >= decision]
        return [action for action in self.at(decision) if all(action in actions for actions in later)]

    def normalize_reward(self, decision: int, reward: Any) -> Reward:
        """Convert a reward to the form of the log: a number, or one for each remaining action in their order.

        Clients may send rewards for all actions that the decision chose from; those of retired actions are ignored.
        """
        if isinstance(reward, int | float):
            return float(reward)
        available, actions = self.at(decision), self.remaining(decision)
        if isinstance(reward, list):
            if len(reward) != len(available) or len(available) == len(actions):
                return [float(value) for value in reward]
            reward = dict(zip(map(str, available), reward, strict=True))
        expected = {str(action) for action in actions}
        if set(reward) != expected and set(reward) != {str(action) for action in available}:
            raise invalid_request(f"reward has the actions {sorted(reward)}: expected one for each of {actions}")
        return [float(reward[str(action)]) for action in actions]

    def is_same_reward(self, decision: int, logged: Any, reward: Any) -> bool:
        """Whether a reward equals the logged one, perhaps logged before an action was retired."""
        if isinstance(logged, dict) or (isinstance(reward, dict) and not isinstance(logged, list)):  # of a slate
            return bool(logged == reward)
        plain = list(reward.values()) if isinstance(reward, dict) else reward
        return bool(logged == self.normalize_reward(decision, reward) or logged == plain)

    def default_reward(self, decision: int, rules: RewardRules) -> Reward | None:
        """The default reward of a decision whose deadline passed; None if the decision is dropped.

        If the policy learns from the rewards of all actions, the decision is dropped if an action without a default
        was added.
        """
        default, first = rules.default, self.versions[0][1]
        if default is None or isinstance(default, int | float):
            return None if default is None else float(default)
        named = default if isinstance(default, dict) else dict(zip(map(str, first), default, strict=True))
        actions = [str(action) for action in self.remaining(decision)]
        return [float(named[action]) for action in actions] if named.keys() >= set(actions) else None

    def named_rewards(self, decision: int, rewards: list[float]) -> dict[ExperimentAction, float]:
        """The rewards of all actions of a decision by action; those of retired actions are not among them."""
        return dict(zip(self.remaining(decision), rewards, strict=True))

    def reward_of_action(self, decision: int, action: ExperimentAction, rewards: list[float]) -> float | None:
        """The reward of one action among those of a decision; None if the action is retired."""
        actions = self.remaining(decision)
        return rewards[actions.index(action)] if action in actions else None
