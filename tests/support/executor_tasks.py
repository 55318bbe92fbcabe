"""Tasks for tests of executors, in a module that every worker can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from polling import wait_until


def square(number: int) -> int:
    return number * number


def wait_for_signal(signal: Path, number: int) -> int:
    """Task 0 waits until the file exists, within the time-out."""
    wait_until(lambda: number != 0 or signal.exists())
    return number * number


def column_sum(table: Any, column: int) -> float:
    return float(table[:, column].sum())


def worker_location(_: int) -> tuple[int, str, str]:
    """The process, its folder, and where it has releaf from."""
    import releaf

    return os.getpid(), os.getcwd(), str(releaf.__file__)


def record_run(folder: Path, number: int) -> int:
    """Add a line with this process to the file of a task."""
    with (folder / f"{number}").open("a") as file:
        file.write(f"{os.getpid()}\n")
    return number


def kill_worker_once(folder: Path, number: int) -> int:
    """The worker of every fifth number is killed, the first time."""
    first = not (folder / f"{number}").exists()
    record_run(folder, number)
    if first and number % 5 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def kill_worker_of_task_3(folder: Path, number: int) -> int:
    """The worker of number 3 is killed each time."""
    record_run(folder, number)
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def missing_file(number: int) -> int:
    if number == 2:
        raise FileNotFoundError(2, "No such file or directory", "cases.csv")
    return number


def sleep_forever(folder: Path, number: int) -> int:
    record_run(folder, number)
    if number > 0:
        time.sleep(600)
    return number


def sleep_forever_with(table: Any, folder: Path, number: int) -> int:
    return sleep_forever(folder, number)


def count_runs(function: Any, folder: Path, run: Any) -> Any:
    """What a function does, with a file for each run that is done and a line for each time."""
    with (folder / run.key).open("a") as file:
        file.write("once\n")
    return function(run)


def count_runs_slowly(function: Any, folder: Path, run: Any) -> Any:
    """The same for what is executed, not found, and takes its time."""
    outcome = function(run)
    if not getattr(outcome, "kept", False):
        record_run(folder, run.seed)
        time.sleep(0.2)
    return outcome


def kill_worker_of_seeds(function: Any, seeds: tuple[int, ...], run: Any) -> Any:
    if run.seed in seeds:
        os.kill(os.getpid(), signal.SIGKILL)
    return function(run)


def block_on_node(folder: Path, node: str, number: int) -> int:
    """On one node of a cluster tasks never end; on the others they wait until that node has one."""
    import ray

    if ray.get_runtime_context().get_node_id() == node:
        record_run(folder, number)
        time.sleep(600)
    wait_until(lambda: any(folder.iterdir()))
    return number * number


def without_seconds(ledgers: list[Any]) -> list[dict[str, Any]]:
    """What runs gave, whoever did them."""
    return [{**ledger.to_dict(), "seconds": 0.0} for ledger in ledgers]


class UnpicklableError(Exception):
    """Its message is all that is pickled, which is not enough to make another."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(f"{what} number {number}")


def raise_unpicklable(folder: Path, number: int) -> int:
    record_run(folder, number)
    if number == 1:
        raise UnpicklableError("odd", number)
    return number


def exit_worker(folder: Path, number: int) -> int:
    record_run(folder, number)
    if number == 1:
        raise SystemExit(3)
    return number


class UnreadableResult:
    """A result that can be sent, and not be read."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def return_unreadable(folder: Path, number: int) -> Any:
    return UnreadableResult() if record_run(folder, number) == 1 else number


def fail_first(number: int) -> int:
    if number == 0:
        raise ValueError("wrong")
    return number
