"""``fit_log`` on 20 million rows of Parquet, for each policy: one worker and two, on this machine's cores and on Ray.

The log has 10 features and 4 actions, of which one feature each matters. Workers are started before the clock is. What
Ray itself takes is how long the program waited for two workers beyond half of what all tasks took.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.measure import Finding, Say
from benchmarks.train import ACTIONS, NAMES, rows

ROWS, FILES, GROUP = 20_000_000, 20, 250_000
RUNS = 3
POLICIES = {"Releaf": (None, 1.0), "AdaptiveReleaf": (500_000, 1.5)}  # rows a second, and GB of a worker


def run(say: Say) -> list[Finding]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder / "log", say)
        _write(folder / "few", say, 200_000, 2, 25_000)
        return [finding for policy in POLICIES for finding in _compared(policy, folder, say)]


def _compared(policy: str, folder: Path, say: Say) -> list[Finding]:
    runs: dict[str, list[Fitted]] = {"one": [], "two": [], "ray": []}
    for number in range(RUNS):
        for side, done in runs.items():
            say(f"scale: {policy}, {side}, run {number + 1} of {RUNS}")
            done.append(_fitted(policy, side, folder))
    if len({fitted.learner for done in runs.values() for fitted in done}) != 1:
        raise RuntimeError("the same log gave different learners")
    seconds = {side: [fitted.seconds for fitted in done] for side, done in runs.items()}
    faster = median(one / two for one, two in zip(seconds["one"], seconds["two"], strict=True))
    in_ray = median((fitted.waited - fitted.worked / 2) / fitted.seconds for fitted in runs["ray"])
    memory = max(fitted.memory for done in runs.values() for fitted in done)
    rates = {side: ROWS / median(taken) for side, taken in seconds.items()}
    detail = {"rows_per_second": rates, "seconds": seconds}
    what, (least, most) = f"scale: {policy}, " if policy != "Releaf" else "scale: ", POLICIES[policy]
    return [
        Finding(what=f"{what}rows a second, one worker", value=rates["one"], unit="/s", at_least=least),
        Finding(what=f"{what}rows a second, two workers", value=rates["two"], unit="/s"),
        Finding(what=f"{what}two workers over one", value=faster, at_least=1.6, detail=detail),
        Finding(what=f"{what}rows a second, Ray with two workers", value=rates["ray"], unit="/s"),
        Finding(what=f"{what}share of the time that Ray takes", value=in_ray, unit="of 1"),
        Finding(what=f"{what}memory of the largest worker", value=memory / 1e9, unit="GB", at_most=most),
    ]


def _write(folder: Path, say: Say, count: int = ROWS, files: int = FILES, group: int = GROUP) -> None:
    import pyarrow
    from pyarrow import parquet

    folder.mkdir()
    for number in range(files):
        say(f"scale: writing the log, file {number + 1} of {files}")
        contexts, taken, rewards = rows(count // files, seed=number)
        columns = {name: contexts[:, place] for place, name in enumerate(NAMES)}
        table = pyarrow.table({**columns, "action": taken, "reward": rewards})
        parquet.write_table(table, folder / f"{number:02}.parquet", row_group_size=group)


class Fitted(NamedTuple):
    """What one run took: seconds, of which the program waited for its workers, and these worked; bytes at most."""

    seconds: float
    waited: float
    worked: float
    memory: int
    learner: bytes


def _fitted(policy: str, side: str, folder: Path) -> Fitted:
    import releaf
    from releaf.executors import executor_for
    from releaf.train import fit_log

    workers, ray = {"one": (1, None), "two": (2, None), "ray": (2, "local")}[side]
    with executor_for(workers, ray) as executor, _watched() as most:
        timed = Timed(executor)
        given: dict[str, Any] = {
            "policy": getattr(releaf, policy),
            "actions": list(range(ACTIONS)),
            "executor": timed,
        }
        fit_log(folder / "few", NAMES, **given)  # so that processes, imports and kernels are there
        timed.waited = timed.worked = 0.0
        started = time.perf_counter()
        learner = fit_log(folder / "log", NAMES, **given)
        seconds = time.perf_counter() - started
    return Fitted(seconds, timed.waited, timed.worked, most[0], learner.to_bytes())


class Timed:
    """An executor that tells how long the program waited for it, and how long the tasks themselves took."""

    def __init__(self, executor: Any) -> None:
        self._executor, self.waited, self.worked = executor, 0.0, 0.0

    def map(self, function: Any, tasks: Any) -> Iterator[tuple[int, Any]]:
        results = iter(self._executor.map(partial(_timed, function), tasks))
        while True:
            asked = time.perf_counter()
            found = next(results, None)
            self.waited += time.perf_counter() - asked
            if found is None:
                return
            place, (result, seconds) = found
            self.worked += seconds
            yield place, result


def _timed(function: Any, task: Any) -> tuple[Any, float]:
    started = time.perf_counter()
    result = function(task)
    return result, time.perf_counter() - started


@contextmanager
def _watched() -> Iterator[list[int]]:
    """Peak memory of child processes, sampled ten times a second."""
    import psutil

    most, over = [0], threading.Event()
    this = psutil.Process()

    def watch() -> None:
        while not over.wait(0.1):
            for process in (this, *this.children(recursive=True)):
                try:
                    if "python" in process.name() or "ray::" in process.name():
                        most[0] = max(most[0], process.memory_info().rss)
                except psutil.Error:
                    continue

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()
