"""The three calls from Python into a rival's kernels, written from the rule and the arrays of its state.

A rule is two functions: ``choose(state, context)`` gives 2 · action, plus 1 when exploring; ``take_in`` learns. The
doors check the context's values and count the decision before. Handed over one by one, the arrays of a state would cost
more than many a decision, so the doors take its ``book``: the address and the shape of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from releaf.core.runtime.jit import door, inner
from releaf.core.runtime.pointers import POINTERS
from releaf.core.runtime.primitives import Array, bad_value

Kernel = Callable[..., Any]

_DECIDE = """
def decide(book, context):
{opened}
    bad = bad_value(context, state.limits)
    if bad < -1:
        return bad
    state.clock[0] += 1
    return choose(state, context)
"""
_DECIDE_ALL = """
def decide_all(book, contexts, decisions, chances, estimates):
{opened}
    for row in range(len(contexts)):
        state.clock[0] += 1
        decisions[row] = choose(state, contexts[row])
        chances[row] = state.chance[0]
        estimates[row] = state.estimates
"""
_LEARN = """
def learn(book, context, step, {wanted}):
{opened}
    return take_in(state, context, step, {wanted})
"""
_REPLAY = """
def replay(book, contexts, rewards, row, actions, explored):
{opened}
    while row < len(contexts) and has_room(state):
        state.clock[0] += 1
        decision = choose(state, contexts[row])
        actions[row] = decision >> 1
        explored[row] = decision & 1 == 1
        {learning}
        row += 1
    return row
"""
_LEARNING = {
    "one": """if wants(state, decision):
            reward = rewards[row, decision >> 1]
            if reward != reward:
                return -1 - row
            take_in(state, contexts[row], state.clock[0], decision >> 1, reward)""",
    "all": """if any_unknown(rewards[row]):
            return -1 - row
        take_in(state, contexts[row], state.clock[0], rewards[row])""",
    "none": "",
}
_LEARN_LOG = """
def learn_log(book, contexts, taken, rewards, row):
{opened}
    while row < len(contexts) and has_room(state):
        state.clock[0] += 1
        see(state, contexts[row])
        take_in(state, contexts[row], state.clock[0], taken[row], rewards[row])
        row += 1
    return row
"""
_TEXTS = {"decide": _DECIDE, "decide_all": _DECIDE_ALL, "learn": _LEARN, "replay": _REPLAY, "learn_log": _LEARN_LOG}
_WANTED = {"one": "action, reward", "all": "rewards", "none": "rewards"}


@inner
def always_room(state: Any) -> bool:
    return True


@inner
def always_wants(state: Any, decision: Any) -> bool:
    return True


@inner
def any_unknown(rewards: Any) -> bool:
    for reward in rewards:  # noqa: SIM110 - a bare loop compiles faster than any()
        if reward != reward:
            return True
    return False


@inner
def learn_nothing(state: Any, context: Any, step: Any, rewards: Any) -> None:
    pass


class Doors:
    """The calls of one rule, each with the book of a state first, then what its name needs.

    ``decide`` returns 2 · action, plus 1 when exploring, or -2 - the feature whose value is out of range;
    ``decide_all`` does so for many contexts that were checked, and keeps what it thought of each. ``replay``
    returns the row it reached: short of the end where the state has no room, and -1 - row where its reward was needed
    and is NaN.

    Parameters
    ----------
    choose, take_in
        The rule.
    file
        Its file, under which the machine code is kept.
    rewards
        What it learns from: "one", the reward of the action taken, "all" of them, or "none".
    wants
        Whether that one is wanted after a decision.
    has_room
        Whether a replay can go on.
    see
        What a context alone changes, before the reward of a logged action; when None, what ``choose`` does.
    """

    decide: Kernel
    decide_all: Kernel
    learn: Kernel
    replay: Kernel
    learn_log: Kernel

    def __init__(
        self,
        choose: Kernel,
        take_in: Kernel,
        *,
        file: str,
        rewards: str = "one",
        wants: Kernel = always_wants,
        has_room: Kernel = always_room,
        see: Kernel | None = None,
    ) -> None:
        self._file = file
        self._rule = f"{choose.__name__}_{take_in.__name__}"  # tells it from the other rules of the file
        self._blanks = {"wanted": _WANTED[rewards], "learning": _LEARNING[rewards]}
        self._scope: dict[str, Any] = {"choose": choose, "take_in": take_in, "has_room": has_room, "wants": wants}
        self._scope["see"] = see or choose
        self._scope |= {"any_unknown": any_unknown, "bad_value": bad_value}
        self._is_open = False

    def open(self, state: Any) -> None:
        """Write the calls for states of this kind, which are compiled when they are first used."""
        if self._is_open:
            return
        for name, text in _TEXTS.items():
            source = text.format(opened=_opened(state), **self._blanks)
            setattr(self, name, _written(source, name, f"{name}_{self._rule}", state, self._scope, self._file))
        self._is_open = True


class Door:
    """A call of one kernel that takes a state, here the arrays themselves, and some further arguments."""

    def __init__(self, kernel: Kernel, *further: str, file: str) -> None:
        self._kernel, self._further, self._file = kernel, further, file
        self._call: Kernel | None = None

    def __call__(self, state: Any, *further: Any) -> Any:
        if self._call is None:
            rest = "".join(f", {name}" for name in self._further)
            source = f"def call(book{rest}):\n{_opened(state)}\n    return kernel(state{rest})\n"
            scope = {"kernel": self._kernel}
            self._call = _written(source, "call", f"call_{self._kernel.__name__}", state, scope, self._file)
        return self._call(book_of(state), *further)


def book_of(state: Any) -> Array:
    """The address and the shape of each array of a state, which must outlive it."""
    for name, array in state._asdict().items():
        if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
            raise ValueError(f"{name} is no memory that a kernel may write to")
    return np.array([number for array in state for number in (array.ctypes.data, *array.shape)], dtype=np.int64)


def _opened(state: Any) -> str:
    """The line that makes a state of its book."""
    arrays, place = [], 0
    for array in state:
        shape = "".join(f"book[{place + 1 + axis}], " for axis in range(array.ndim))
        arrays.append(f"carray(at_{array.dtype.name}(book[{place}]), ({shape}))")
        place += 1 + array.ndim
    return f"    state = State({', '.join(arrays)})"


def _written(source: str, name: str, full_name: str, state: Any, scope: dict[str, Any], file: str) -> Kernel:
    """A call made of its text, under a name of its own."""
    scope = scope | POINTERS | {"State": type(state), "carray": numba.carray, "__name__": type(state).__module__}
    exec(compile(source.replace(f"def {name}", f"def {full_name}"), file, "exec"), scope)
    made: Kernel = door(scope[full_name])
    return made
