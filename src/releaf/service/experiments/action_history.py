"""The actions of an experiment over time, and what the rewards of a decision are when actions come and go."""

from __future__ import annotations

from typing import Any

from releaf.service.errors import invalid
from releaf.service.messages import RewardRules

Label = str | int
Reward = float | list[float]


class Actions:
    """Which actions there were at which decision.

    Parameters
    ----------
    since
        After which decision which actions came to be; the first entry is that of the beginning.
    """

    def __init__(self, since: list[tuple[int, list[Label]]]) -> None:
        self.since = since

    def changed(self, decision: int, actions: list[Label]) -> None:
        """After this decision there are these actions."""
        self.since.append((decision, actions))

    def at(self, decision: int) -> list[Label]:
        """The actions that a decision chose from."""
        since, actions = self.since[-1]
        if decision > since:
            return actions
        return next(actions for before, actions in reversed(self.since) if before < decision)

    def lasting(self, decision: int) -> list[Label]:
        """The actions that there were at a decision, and have been ever since."""
        later = [actions for since, actions in self.since if since >= decision]
        return [action for action in self.at(decision) if all(action in actions for actions in later)]

    def plain_reward(self, decision: int, reward: Any) -> Reward:
        """A reward as the log keeps it: a number, or one for each lasting action in their order.

        Rewards may be given for all actions that there were at the decision; those of retired ones are left out.
        """
        if isinstance(reward, int | float):
            return float(reward)
        asked, actions = self.at(decision), self.lasting(decision)
        if isinstance(reward, list):
            if len(reward) != len(asked) or len(asked) == len(actions):
                return [float(value) for value in reward]
            reward = dict(zip(map(str, asked), reward, strict=True))
        wanted = {str(action) for action in actions}
        if set(reward) != wanted and set(reward) != {str(action) for action in asked}:
            raise invalid(f"a reward is wanted for each of the actions {actions}, got {sorted(reward)}")
        return [float(reward[str(action)]) for action in actions]

    def was_given(self, decision: int, kept: Any, reward: Any) -> bool:
        """Whether a reward is the one that the log keeps, be it from before an action was retired."""
        given = list(reward.values()) if isinstance(reward, dict) else reward
        return bool(kept == self.plain_reward(decision, reward) or kept == given)

    def default_reward(self, decision: int, rules: RewardRules) -> Reward | None:
        """What counts as the reward of a decision when none comes; None where it is dropped.

        Where the rewards of all actions are wanted, it is dropped if an action was added that has no default.
        """
        default, first = rules.default, self.since[0][1]
        if default is None or isinstance(default, int | float):
            return None if default is None else float(default)
        named = default if isinstance(default, dict) else dict(zip(map(str, first), default, strict=True))
        actions = [str(action) for action in self.lasting(decision)]
        return [float(named[action]) for action in actions] if named.keys() >= set(actions) else None

    def reward_of(self, decision: int, action: Label, rewards: list[float]) -> float | None:
        """The reward of one action among those of a decision; None where it was retired since."""
        actions = self.lasting(decision)
        return rewards[actions.index(action)] if action in actions else None
