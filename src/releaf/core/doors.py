"""The calls from Python into RELEAF's kernels, each compiled for one width of lanes and one size of tuples."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from releaf.core import kernels, lives
from releaf.core.jit import door


class Doors(NamedTuple):
    """The kernels that Python calls."""

    decide: Callable[..., Any]
    learn: Callable[..., Any]
    learn_all: Callable[..., Any]
    replay: Callable[..., Any]
    learn_log: Callable[..., Any]
    estimate_all: Callable[..., Any]


_ARGUMENTS = {
    kernels.decide: "book, context",
    kernels.learn: "book, context, step, action, reward",
    kernels.learn_all: "book, context, step, rewards",
    lives.replay: "book, contexts, rewards, start, decided, actions, explored, observed",
    lives.learn_log: "book, contexts, taken, rewards, start, decided",
    lives.estimate_all: "book, contexts, estimates",
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
