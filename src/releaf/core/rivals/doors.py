"""The three calls from Python into a rival's kernels, written from the rule and the fields of its state.

A rule is two functions: ``choose(state, context)`` gives 2 · action, plus 1 when exploring; ``take_in`` learns. The
doors check the context's values and count the decision before. Unpacked by Numba, a state of named arrays would cost
more than many a decision, so the doors take the arrays one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from releaf.core.jit import door, inner
from releaf.core.rivals.common import bad_value

Kernel = Callable[..., Any]

_DECIDE = """
def decide({fields}, context):
    bad = bad_value(context, limits)
    if bad < -1:
        return bad
    clock[0] += 1
    return choose(State({fields}), context)
"""
_LEARN = """
def learn({fields}, context, step, {wanted}):
    return take_in(State({fields}), context, step, {wanted})
"""
_REPLAY = """
def replay({fields}, contexts, rewards, row, actions, explored):
    state = State({fields})
    while row < len(contexts) and has_room(state):
        clock[0] += 1
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
            take_in(state, contexts[row], clock[0], decision >> 1, reward)""",
    "all": """if any_unknown(rewards[row]):
            return -1 - row
        take_in(state, contexts[row], clock[0], rewards[row])""",
    "none": "",
}
_WANTED = {"one": "action, reward", "all": "rewards", "none": "rewards"}


class Doors(NamedTuple):
    """Each takes the arrays of the state first, then what its name needs.

    ``replay`` returns the row it reached: short of the end where the state has no room, and -1 - row where its reward
    was needed and is NaN.
    """

    decide: Kernel
    learn: Kernel
    replay: Kernel


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


def make_doors(
    state: type,
    choose: Kernel,
    take_in: Kernel,
    *,
    file: str,
    rewards: str = "one",
    wants: Kernel = always_wants,
    has_room: Kernel = always_room,
) -> Doors:
    """Doors for a rule that learns from ``rewards``: "one", that of the action taken, "all" of them, or "none".

    ``wants`` tells whether that one is wanted after a decision.

    ``file`` is the rule's, under which the machine code is kept.
    """
    scope: dict[str, Any] = {"State": state, "choose": choose, "take_in": take_in, "has_room": has_room}
    scope["wants"] = wants
    scope |= {"any_unknown": any_unknown, "bad_value": bad_value, "__name__": state.__module__}
    fields = ", ".join(state._fields)  # type: ignore[attr-defined]
    made = []
    for name, text in (("decide", _DECIDE), ("learn", _LEARN), ("replay", _REPLAY)):
        source = text.format(fields=fields, wanted=_WANTED[rewards], learning=_LEARNING[rewards])
        full_name = f"{name}_{choose.__name__}_{take_in.__name__}"  # tells it from the other rules of the file
        exec(compile(source.replace(f"def {name}", f"def {full_name}"), file, "exec"), scope)
        made.append(door(scope[full_name]))
    return Doors(*made)


def make_door(state: type, kernel: Kernel, further: tuple[str, ...], *, file: str) -> Kernel:
    """A call of one kernel that takes a state and some further arguments."""
    fields, rest = ", ".join(state._fields), "".join(f", {name}" for name in further)  # type: ignore[attr-defined]
    name = f"call_{kernel.__name__}"
    scope: dict[str, Any] = {"State": state, "kernel": kernel, "__name__": state.__module__}
    exec(compile(f"def {name}({fields}{rest}):\n    return kernel(State({fields}){rest})\n", file, "exec"), scope)
    made: Kernel = door(scope[name])
    return made
