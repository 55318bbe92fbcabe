"""Entry points from Python into the kernels of a rule, generated from the rule and the arrays of its state.

A rule is two functions: ``choose(state, context)`` returns 2 · action, plus 1 when exploring; ``update`` learns. The
entry points check the context's values and count the decision before they call ``choose``. Passing the arrays of a
state one by one would cost more than a decision does, so entry points take its pointer table: the address and the shape
of each array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from releaf.core.runtime.jit import entry_point, inlined
from releaf.core.runtime.pointers import POINTERS
from releaf.core.runtime.primitives import Array, check_context

Kernel = Callable[..., Any]

_DECIDE = """
def decide(pointer_table, context):
{open_state}
    bad = check_context(context, state.limits)
    if bad < -1:
        return bad
    state.clock[0] += 1
    return choose(state, context)
"""
_DECIDE_ALL = """
def decide_all(pointer_table, contexts, decisions, chances, estimates):
{open_state}
    for row in range(len(contexts)):
        state.clock[0] += 1
        decisions[row] = choose(state, contexts[row])
        chances[row] = state.chance[0]
        estimates[row] = state.estimates
"""
_LEARN = """
def learn(pointer_table, context, step, {wanted}):
{open_state}
    return update(state, context, step, {wanted})
"""
_REPLAY = """
def replay(pointer_table, contexts, rewards, row, actions, explored):
{open_state}
    while row < len(contexts) and has_capacity(state):
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
            update(state, contexts[row], state.clock[0], decision >> 1, reward)""",
    "all": """if any_unknown(rewards[row]):
            return -1 - row
        update(state, contexts[row], state.clock[0], rewards[row])""",
    "none": "",
}
_LEARN_LOG = """
def learn_log(pointer_table, contexts, taken, rewards, row):
{open_state}
    while row < len(contexts) and has_capacity(state):
        state.clock[0] += 1
        observe_context(state, contexts[row])
        update(state, contexts[row], state.clock[0], taken[row], rewards[row])
        row += 1
    return row
"""
_TEXTS = {"decide": _DECIDE, "decide_all": _DECIDE_ALL, "learn": _LEARN, "replay": _REPLAY, "learn_log": _LEARN_LOG}
_WANTED = {"one": "action, reward", "all": "rewards", "none": "rewards"}


@inlined
def always_has_capacity(state: Any) -> bool:
    return True


@inlined
def always_wants(state: Any, decision: Any) -> bool:
    return True


@inlined
def any_unknown(rewards: Any) -> bool:
    for reward in rewards:  # noqa: SIM110 - a bare loop compiles faster than any()
        if reward != reward:
            return True
    return False


@inlined
def learn_nothing(state: Any, context: Any, step: Any, rewards: Any) -> None:
    pass


class EntryPoints:
    """Entry points of one rule. The first argument of each is the pointer table of a state.

    ``decide`` returns 2 · action, plus 1 when exploring, or -2 - the feature whose value is out of range;
    ``decide_all`` does so for many checked contexts, and stores probability and estimates of each. ``replay``
    returns the row it reached: short of the end where the state's capacity is used up, and -1 - row where a needed
    reward is NaN.

    Parameters
    ----------
    choose, update
        The rule.
    file
        The rule's source file, beside which the machine code is cached.
    rewards
        What it learns from: "one", the reward of the action taken, "all" of them, or "none".
    wants
        Whether the policy wants the reward of a decision.
    has_capacity
        Whether a replay can continue.
    observe_context
        What a context alone changes, before the reward of a logged action; ``choose`` when None.
    """

    decide: Kernel
    decide_all: Kernel
    learn: Kernel
    replay: Kernel
    learn_log: Kernel

    def __init__(
        self,
        choose: Kernel,
        update: Kernel,
        *,
        file: str,
        rewards: str = "one",
        wants: Kernel = always_wants,
        has_capacity: Kernel = always_has_capacity,
        observe_context: Kernel | None = None,
    ) -> None:
        self._file = file
        self._rule = f"{choose.__name__}_{update.__name__}"  # distinguishes the rules of a file
        self._blanks = {"wanted": _WANTED[rewards], "learning": _LEARNING[rewards]}
        self._scope: dict[str, Any] = {"choose": choose, "update": update, "has_capacity": has_capacity, "wants": wants}
        self._scope["observe_context"] = observe_context or choose
        self._scope |= {"any_unknown": any_unknown, "check_context": check_context}
        self._is_open = False

    def open(self, state: Any) -> None:
        """Generate the entry points for states of this type; Numba compiles each on its first call."""
        if self._is_open:
            return
        for name, text in _TEXTS.items():
            source = text.format(open_state=_opening_line(state), **self._blanks)
            setattr(self, name, _compiled(source, name, f"{name}_{self._rule}", state, self._scope, self._file))
        self._is_open = True


class EntryPoint:
    """Entry point of one kernel that takes a state (here the arrays themselves) and further arguments."""

    def __init__(self, kernel: Kernel, *further: str, file: str) -> None:
        self._kernel, self._further, self._file = kernel, further, file
        self._call: Kernel | None = None

    def __call__(self, state: Any, *further: Any) -> Any:
        if self._call is None:
            rest = "".join(f", {name}" for name in self._further)
            source = f"def call(pointer_table{rest}):\n{_opening_line(state)}\n    return kernel(state{rest})\n"
            scope = {"kernel": self._kernel}
            self._call = _compiled(source, "call", f"call_{self._kernel.__name__}", state, scope, self._file)
        return self._call(pointer_table_of(state), *further)


def pointer_table_of(state: Any) -> Array:
    """Build the pointer table of a state: address and shape of each array. The state must outlive it."""
    for name, array in state._asdict().items():
        if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
            raise ValueError(f"{name} is not writable, aligned and contiguous: kernels need arrays that are")
    return np.array([number for array in state for number in (array.ctypes.data, *array.shape)], dtype=np.int64)


def _opening_line(state: Any) -> str:
    """Source line that opens a state from its pointer table."""
    arrays, place = [], 0
    for array in state:
        shape = "".join(f"pointer_table[{place + 1 + axis}], " for axis in range(array.ndim))
        arrays.append(f"carray(at_{array.dtype.name}(pointer_table[{place}]), ({shape}))")
        place += 1 + array.ndim
    return f"    state = State({', '.join(arrays)})"


def _compiled(source: str, name: str, full_name: str, state: Any, scope: dict[str, Any], file: str) -> Kernel:
    """Compile the source of an entry point under a unique name."""
    scope = scope | POINTERS | {"State": type(state), "carray": numba.carray, "__name__": type(state).__module__}
    exec(compile(source.replace(f"def {name}", f"def {full_name}"), file, "exec"), scope)
    made: Kernel = entry_point(scope[full_name])
    return made
