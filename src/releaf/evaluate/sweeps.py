"""`sweep`: many runs in parallel, with stored results reused."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from releaf.evaluate.file_digests import FILE_ARGUMENTS
from releaf.evaluate.ledger import Ledger
from releaf.evaluate.runs import Run, execute
from releaf.evaluate.store import Store
from releaf.executors import Executor, Local, LostWorkerError
from releaf.executors.tasks import RemoteError
from releaf.progress import Progress, report_progress

_MAX_NAMED = 5  # policies, and seeds of each, that an error names


class Outcome(NamedTuple):
    """Ledger of a run, its key at that time, and whether it came from the store."""

    ledger: Ledger
    key: str
    kept: bool


def sweep(
    runs: Sequence[Run],
    store: Store | None = None,
    executor: Executor | None = None,
    done: Callable[[Run, Ledger, bool], Any] = lambda run, ledger, kept: None,
    progress: Progress = None,
) -> list[Ledger]:
    """Execute runs in parallel, except those in the store; returns the ledgers in the order of the runs.

    A failing run does not stop the others. Its exception is raised at the end, once for all runs that failed with it,
    with a note that names them; different exceptions are raised as an ExceptionGroup.

    Parameters
    ----------
    runs
        Runs of any policies and streams. Identical runs are executed once.
    store
        Store of finished runs, or None. Several sweeps may share one at the same time.
    executor
        Where runs execute; this machine's cores when None. This process stores the results as they complete.
    done
        Called with each run, its ledger, and whether it came from the store.
    progress
        True for a bar, in a notebook or a terminal; or a function, called with the runs done and the runs in total.
    """
    show = report_progress(progress, "Sweep", "runs")
    indices: dict[str, list[int]] = {}
    for index, run in enumerate(runs):
        indices.setdefault(run.key, []).append(index)
    ledgers: dict[int, Ledger] = {}

    def report(same: list[int], ledger: Ledger, kept: bool) -> None:
        for index in same:
            ledgers[index] = ledger
            done(runs[index], ledger, kept)
            show(len(ledgers), len(runs))

    missing: dict[str, Run] = {}
    for key, same in indices.items():
        kept = None if store is None else store.get(runs[same[0]], key)
        if kept is None:
            missing[key] = runs[same[0]]
        else:
            report(same, kept, True)
    failed: dict[int, Exception] = {}
    for key, outcome in _run_all(missing, store, executor or Local()):
        if isinstance(outcome, Exception):
            failed[indices[key][0]] = outcome
            continue
        if store is not None and not outcome.kept:
            store.put(missing[key], outcome.ledger, key)
        report(indices[key], outcome.ledger, outcome.kept)
    if failed:
        raise _combine_errors(failed, runs)
    return [ledgers[index] for index in range(len(runs))]


def _run_all(
    missing: dict[str, Run], store: Store | None, executor: Executor
) -> Iterator[tuple[str, Outcome | Exception]]:
    """Yield the outcome of each run by its key; a run that kills its workers is reported, and the others continue."""
    left, futile = list(missing) if store is None else _shuffled(missing), 0
    while left:
        done: set[str] = set()
        try:
            for turn, outcome in executor.map(partial(_run_one, store), [missing[key] for key in left]):
                done.add(left[turn])
                futile = 0
                yield left[turn], _check_key(outcome, left[turn])
        except LostWorkerError as error:
            futile += 1
            if futile > 1:  # the runs are not the cause
                raise
            done.add(left[error.index])
            yield left[error.index], error
        left = [key for key in left if key not in done]


def _run_one(store: Store | None, run: Run) -> Outcome | RemoteError:
    """Execute a run on a worker, unless another sweep has stored it meanwhile."""
    try:
        kept = None if store is None else store.get(run)
        ledger = execute(run) if kept is None else kept
        return Outcome(ledger, run.key, kept is not None)
    except Exception as error:
        return RemoteError(error)


def _check_key(outcome: Outcome | RemoteError, key: str) -> Outcome | Exception:
    """Reject a result with another key: an input file changed, or differs on another machine."""
    if isinstance(outcome, RemoteError):
        return cast(Exception, outcome.restore())
    if outcome.key != key:
        return ValueError("an input file of the run has changed since the sweep began, or differs on the worker")
    return outcome


def _shuffled(missing: dict[str, Run]) -> list[str]:
    """Random order of the runs, so that concurrent sweeps share the work of a store.

    Runs over the same stream stay together, so that a worker creates it once.
    """
    draws: defaultdict[tuple[str, str], float] = defaultdict(random.random)
    streams = {key: (run.stream, repr(run.stream_arguments)) for key, run in missing.items()}
    return sorted(missing, key=lambda key: (draws[streams[key]], random.random()))


def _combine_errors(failed: dict[int, Exception], runs: Sequence[Run]) -> Exception:
    """Combine the errors of all runs; equal errors are raised once, with a note that names their runs in words."""
    alike: dict[tuple[type, str], list[int]] = {}
    for index, error in sorted(failed.items()):
        alike.setdefault((type(error), str(error)), []).append(index)
    errors = [failed[indices[0]] for indices in alike.values()]
    for error, indices in zip(errors, alike.values(), strict=True):
        error.add_note(_describe_runs([runs[index] for index in indices], len(runs)))
    if len(errors) == 1:
        return errors[0]
    return ExceptionGroup(f"{len(failed)} of {len(runs)} runs failed", errors)


def _describe_runs(failed: Sequence[Run], count: int) -> str:
    """Which runs failed, in words: policies over streams, with their seeds."""
    if len(failed) == count > 1:
        return f"all {count} runs failed so"
    seeds: dict[str, list[int]] = {}
    for run in failed:
        seeds.setdefault(f"{run.policy} over {_name_of_stream(run)}", []).append(run.seed)
    named = [
        f"{name} (seed{'s' * (len(found) > 1)} {', '.join(map(str, found[:_MAX_NAMED]))}"
        f"{', …' * (len(found) > _MAX_NAMED)})"
        for name, found in seeds.items()
    ]
    more = f" and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    return f"in {len(failed)} of {count} runs: {'; '.join(named[:_MAX_NAMED])}{more}"


def _name_of_stream(run: Run) -> str:
    """The file that a stream is read from, or else its function."""
    given = run.stream_arguments
    return next((str(given[name]) for name in FILE_ARGUMENTS if name in given), run.stream)
