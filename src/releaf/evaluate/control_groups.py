"""Lift over a control group, from the rewards of a log."""

from __future__ import annotations

from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.control_lift import ControlLift, GroupSums
from releaf.decision import CONTROL, LEARNER
from releaf.policies.argument_checks import positive
from releaf.policies.reward_checks import checked_reward_range


def lift(
    rewards: Any, groups: Any, control_share: float, *, reward_range: tuple[float, float] = (0.0, 1.0)
) -> ControlLift:
    """Estimate by how much the learner earned more per decision than its control group.

    For a log of decisions with groups, such as an export of the service, and any figure of it: that which the learner
    maximised, or another one that it should not harm. Its bounds hold at all times at once, so that one may read them
    as often as the log grows.

    Parameters
    ----------
    rewards
        The reward of each decision, in the order of time; NaN where it is unknown, which counts for neither group.
    groups
        The group of each decision: "learner" or "control", as in ``Decision.group``; or whether it is one of control.
    control_share
        The probability with which a decision was one of control.
    reward_range
        Lowest and highest possible reward.

    Examples
    --------
    >>> import numpy as np, releaf
    >>> draw = np.random.default_rng(0)
    >>> control = draw.random(5_000) < 0.2
    >>> earned = (draw.random(5_000) < np.where(control, 0.3, 0.5)) * 12.0
    >>> found = releaf.evaluate.lift(earned, control, 0.2, reward_range=(0, 12))
    >>> found.lower < 2.4 < found.upper, found.is_shown, found.control_rewards
    (True, True, 1047)
    """
    share = positive("control_share", control_share, below=1.0)
    low, high = checked_reward_range(reward_range)
    earned, marks = np.asarray(rewards, dtype=np.float64), _marks_of(groups)
    if earned.ndim != 1 or earned.shape != marks.shape:
        raise ValueError(f"expected a group for each reward, got {earned.shape} rewards and {marks.shape} groups")
    wrong = (earned < low) | (earned > high)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"reward of row {row} is {earned[row]:g}: expected one in reward_range, {low:g} to {high:g}")
    sums, known = GroupSums(share), ~np.isnan(earned)
    for is_control, reward in zip(marks[known].tolist(), ((earned[known] - low) / (high - low)).tolist(), strict=True):
        sums.add(is_control, reward)
    return sums.lift(low, high - low)


def _marks_of(groups: Any) -> Array:
    """Whether each decision is one of control."""
    given = np.asarray(groups)
    if given.dtype.kind == "b":
        return given
    names = given.astype(object)
    unknown = [name for name in names.ravel().tolist() if name not in (CONTROL, LEARNER)]
    if unknown:
        raise ValueError(f"groups has {unknown[0]!r}: expected {LEARNER!r}, {CONTROL!r}, or booleans")
    marks: Array = np.asarray(names == CONTROL, dtype=np.bool_)
    return marks
