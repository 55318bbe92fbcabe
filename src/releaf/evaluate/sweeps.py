"""Many runs, in parallel and through failures; those that are kept are not done again."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from releaf.evaluate.ledger import Ledger
from releaf.evaluate.runs import Run, execute
from releaf.evaluate.store import Store
from releaf.executors import Executor, Local, LostWorkerError
from releaf.executors.tasks import Raised, named

_NAMED = 10  # of the runs that raised the same, how many an error names


class Outcome(NamedTuple):
    """What a run gave, the key that it had then, and whether it had been kept."""

    ledger: Ledger
    key: str
    kept: bool


def sweep(
    runs: Sequence[Run],
    store: Store | None = None,
    executor: Executor | None = None,
    done: Callable[[Run, Ledger, bool], Any] = lambda run, ledger, kept: None,
) -> list[Ledger]:
    """Do all runs that were not done before, in parallel; the ledgers in the order of the runs.

    A run that fails does not keep the others from being done. What it raised is raised at the end, with a note that
    names it: as it is, or in an ExceptionGroup where runs raised different errors.

    Parameters
    ----------
    runs
        Any number, of any policies and streams. Runs that would do the same are done once.
    store
        Where finished runs are kept and looked for; None keeps none. Several sweeps may use one at the same time.
    executor
        Where they are done; on this machine's cores when None. What is finished is kept here, as it comes in.
    done
        Told of each run with its ledger, and whether it had been kept from before.
    """
    places: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        places.setdefault(run.key, []).append(place)
    found: dict[int, Ledger] = {}

    def tell(same: list[int], ledger: Ledger, kept: bool) -> None:
        for place in same:
            found[place] = ledger
            done(runs[place], ledger, kept)

    missing: dict[str, Run] = {}
    for key, same in places.items():
        kept = None if store is None else store.get(runs[same[0]], key)
        if kept is None:
            missing[key] = runs[same[0]]
        else:
            tell(same, kept, True)
    failed: dict[int, Exception] = {}
    for key, outcome in _outcomes(missing, store, executor or Local()):
        if isinstance(outcome, Exception):
            failed[places[key][0]] = outcome
            continue
        if store is not None and not outcome.kept:
            store.put(missing[key], outcome.ledger, key)
        tell(places[key], outcome.ledger, outcome.kept)
    if failed:
        raise _together(failed, runs)
    return [found[place] for place in range(len(runs))]


def _outcomes(
    missing: dict[str, Run], store: Store | None, executor: Executor
) -> Iterator[tuple[str, Outcome | Exception]]:
    """What comes of each run, by its key. One that its workers die of is left out, once something else can be done."""
    left, futile = list(missing) if store is None else _shuffled(missing), 0
    while left:
        done: set[str] = set()
        try:
            for turn, outcome in executor.map(partial(_attempt, store), [missing[key] for key in left]):
                done.add(left[turn])
                futile = 0
                yield left[turn], _same(outcome, left[turn])
        except LostWorkerError as error:
            futile += 1
            if futile > 1:  # it is not the runs that they die of
                raise
            done.add(left[error.place])
            yield left[error.place], error
        left = [key for key in left if key not in done]


def _attempt(store: Store | None, run: Run) -> Outcome | Raised:
    """Do a run on a worker, unless another sweep has done it by now."""
    try:
        kept = None if store is None else store.get(run)
        ledger = execute(run) if kept is None else kept
        return Outcome(ledger, run.key, kept is not None)
    except Exception as error:
        return Raised(error)


def _same(outcome: Outcome | Raised, key: str) -> Outcome | Exception:
    """What came of the run that was meant: files that it names may have changed, or be others on another machine."""
    if isinstance(outcome, Raised):
        return cast(Exception, outcome.told())
    if outcome.key != key:
        return ValueError("a file that the run reads is not the one that there was when the sweep began")
    return outcome


def _shuffled(missing: dict[str, Run]) -> list[str]:
    """In an order of their own, so that sweeps at the same time share the runs of a store.

    Runs over the same stream stay neighbours, for which it is made once.
    """
    draws: defaultdict[tuple[str, str], float] = defaultdict(random.random)
    streams = {key: (run.stream, repr(run.stream_arguments)) for key, run in missing.items()}
    return sorted(missing, key=lambda key: (draws[streams[key]], random.random()))


def _together(failed: dict[int, Exception], runs: Sequence[Run]) -> Exception:
    """All that runs raised; what several raised alike is told once, with a note for each."""
    alike: dict[tuple[type, str], list[int]] = {}
    for place, error in sorted(failed.items()):
        alike.setdefault((type(error), str(error)), []).append(place)
    errors = [failed[places[0]] for places in alike.values()]
    for error, places in zip(errors, alike.values(), strict=True):
        for place in places[:_NAMED]:
            error.add_note(f"{named(place, runs[place])} raised this")
        if len(places) > _NAMED:
            error.add_note(f"and so did {len(places) - _NAMED} more")
    if len(errors) == 1:
        return errors[0]
    return ExceptionGroup(f"{len(failed)} of {len(runs)} runs failed", errors)
