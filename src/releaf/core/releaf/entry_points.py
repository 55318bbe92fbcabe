"""Entry points from Python into RELEAF's kernels, compiled for one width of vector lanes and one tuple size."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from releaf.core.releaf import decision_step, stream_replay
from releaf.core.runtime.jit import entry_point


class ReleafEntryPoints(NamedTuple):
    """The kernels that Python calls, for one width and one tuple size."""

    decide: Callable[..., Any]
    learn: Callable[..., Any]
    learn_all: Callable[..., Any]
    replay: Callable[..., Any]
    learn_log: Callable[..., Any]
    estimate_all: Callable[..., Any]


_ARGUMENTS = {
    decision_step.decide: "pointer_table, context",
    decision_step.learn: "pointer_table, context, step, action, reward",
    decision_step.learn_all: "pointer_table, context, step, rewards",
    stream_replay.replay: "pointer_table, contexts, rewards, start, decided, actions, explored, observed",
    stream_replay.learn_log: "pointer_table, contexts, taken, rewards, start, decided",
    stream_replay.estimate_all: "pointer_table, contexts, estimates",
}


@cache
def entry_points(lanes: int, size: int) -> ReleafEntryPoints:
    """Generate the entry points with both sizes as constants.

    Numba could take them as arguments, but unpacking a tuple on each call costs a tenth of a decision.
    """
    made = []
    for kernel, arguments in _ARGUMENTS.items():
        name = f"{kernel.__name__}_{lanes}_{size}"
        sizes = f"{(0.0,) * lanes}, {(0,) * size}"
        text = f"def {name}({arguments}):\n    return kernel({arguments}, {sizes})"
        scope: dict[str, Any] = {"kernel": kernel, "__name__": __name__}
        exec(compile(text, __file__, "exec"), scope)
        made.append(entry_point(scope[name]))
    return ReleafEntryPoints(*made)
