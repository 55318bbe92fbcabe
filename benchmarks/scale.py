"""``fit_log`` on 20 million rows of Parquet: one worker and two, on this machine's cores and on Ray.

The log has 10 features and 4 actions, of which one feature each matters. Workers are started before the clock is.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import Finding, Say
from benchmarks.train import ACTIONS, NAMES, rows

ROWS, FILES, GROUP = 20_000_000, 20, 250_000
RUNS = 3


def run(say: Say) -> list[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), say)
        seconds: dict[str, list[float]] = {"one": [], "two": [], "ray": []}
        answers, peaks = set(), []
        for number in range(RUNS):
            for side in seconds:
                say(f"scale: {side}, run {number + 1} of {RUNS}")
                taken, content, peak = _fitted(side, folder)
                seconds[side].append(taken)
                answers.add(content)
                peaks.append(peak)
        busy = _share_of_ray(folder, seconds["ray"])
    if len(answers) != 1:
        raise RuntimeError("the same log gave different learners")
    faster = median(one / two for one, two in zip(seconds["one"], seconds["two"], strict=True))
    rates = {side: ROWS / median(taken) for side, taken in seconds.items()}
    detail = {"rows_per_second": rates, "seconds": seconds}
    return [
        Finding(what="scale: rows a second, one worker", value=rates["one"], unit="/s"),
        Finding(what="scale: rows a second, two workers", value=rates["two"], unit="/s"),
        Finding(what="scale: two workers over one", value=faster, at_least=1.6, detail=detail),
        Finding(what="scale: rows a second, Ray with two workers", value=rates["ray"], unit="/s"),
        Finding(what="scale: share of the time that Ray takes", value=busy, unit="of 1"),
        Finding(what="scale: memory of the largest worker", value=max(peaks) / 1e9, unit="GB", at_most=1.0),
    ]


def _write(folder: Path, say: Say) -> None:
    import pyarrow
    from pyarrow import parquet

    for number in range(FILES):
        say(f"scale: writing the log, file {number + 1} of {FILES}")
        contexts, taken, rewards = rows(ROWS // FILES, seed=number)
        columns = {name: contexts[:, place] for place, name in enumerate(NAMES)}
        table = pyarrow.table({**columns, "action": taken, "reward": rewards})
        parquet.write_table(table, folder / f"{number:02}.parquet", row_group_size=GROUP)


def _fitted(side: str, folder: str) -> tuple[float, bytes, int]:
    """Seconds, the learner, and the most memory that a process took."""
    from releaf.executors import executor_for
    from releaf.train import fit_log

    workers, ray = {"one": (1, None), "two": (2, None), "ray": (2, "local")}[side]
    with executor_for(workers, ray) as executor, _watched() as most:
        list(executor.map(_ready, range(4)))
        started = time.perf_counter()
        learner = fit_log(folder, NAMES, actions=list(range(ACTIONS)), executor=executor)
        return time.perf_counter() - started, learner.to_bytes(), most[0]


def _ready(number: int) -> int:
    import releaf.train.fit  # noqa: F401  (so that imports are not measured)

    return number


def _share_of_ray(folder: str, taken: list[float]) -> float:
    """What is left of the time when the work of all tasks, done one after the other here, is divided by two."""
    from releaf.executors import Local
    from releaf.train import fit_log

    class Timed(Local):
        inside = 0.0

        def map(self, function: Any, tasks: Any) -> Iterator[tuple[int, Any]]:
            for place, task in enumerate(tasks):
                started = time.perf_counter()
                result = function(task)
                Timed.inside += time.perf_counter() - started
                yield place, result

    fit_log(folder, NAMES, actions=list(range(ACTIONS)), executor=Timed(1))
    return max(0.0, 1 - Timed.inside / 2 / median(taken))


@contextmanager
def _watched() -> Iterator[list[int]]:
    """The most memory of a process below this one, looked at ten times a second."""
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
