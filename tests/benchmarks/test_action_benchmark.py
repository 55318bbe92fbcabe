"""The planted problem of ``python -m benchmarks actions``."""

from __future__ import annotations

import numpy as np
from benchmarks.actions import ACTIONS, CHANGED, World, joint_side, live, random_side


def test_actions_come_and_go_and_their_number_stays() -> None:
    world = World(1)
    before = {action.name for action in world.alive}
    left, came = world.change()
    assert len(left) == len(came) == CHANGED
    assert len(world.alive) == ACTIONS
    assert {action.name for action in world.alive} == before - {a.name for a in left} | {a.name for a in came}


def test_all_methods_meet_the_same_stream() -> None:
    one, other = live(random_side, 3, steps=120), live(joint_side, 3, steps=120)
    assert np.array_equal(one.best, other.best)
    assert (one.gained <= one.best).all()
    assert other.gained.shape == (120,)
