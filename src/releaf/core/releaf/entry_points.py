"""The calls from Python into RELEAF's kernels, each compiled for one width of lanes and one size of tuples."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from releaf.core.releaf import decision_step, stream_replay
from releaf.core.runtime.jit import door


class Doors(NamedTuple):
    """The kernels that Python calls."""

    decide: Callable[..., Any]
    learn: Callable[..., Any]
    learn_all: Callable[..., Any]
    replay: Callable[..., Any]
    learn_log: Callable[..., Any]
    estimate_all: Callable[..., Any]


_ARGUMENTS = {
    decision_step.decide: "book, context",
    decision_step.learn: "book, context, step, action, reward",
    decision_step.learn_all: "book, context, step, rewards",
    stream_replay.replay: "book, contexts, rewards, start, decided, actions, explored, observed",
    stream_replay.learn_log: "book, contexts, taken, rewards, start, decided",
    stream_replay.estimate_all: "book, contexts, estimates",
}


@cache
def doors(lanes: int, size: int) -> Doors:
    """The kernels with these sizes written into them.

    Numba would take them as arguments too, but unpacking a tuple on each call costs a tenth of a decision.
    """
    made = []
    for kernel, arguments in _ARGUMENTS.items():
        name = f"{kernel.__name__}_{lanes}_{size}"
        sizes = f"{(0.0,) * lanes}, {(0,) * size}"
        text = f"def {name}({arguments}):\n    return kernel({arguments}, {sizes})"
        scope: dict[str, Any] = {"kernel": kernel, "__name__": __name__}
        exec(compile(text, __file__, "exec"), scope)
        made.append(door(scope[name]))
    return Doors(*made)
