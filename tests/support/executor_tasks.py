"""What workers are asked to do in tests of executors: importable wherever they run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any


def square(number: int) -> int:
    return number * number


def wait_first(signal: Path, number: int) -> int:
    """Task 0 waits for the signal, within a minute."""
    end = time.monotonic() + 60.0
    while number == 0 and not signal.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return number * number


def column_sum(table: Any, column: int) -> float:
    return float(table[:, column].sum())


def where(_: int) -> tuple[int, str, str]:
    """The process, its folder, and where it has releaf from."""
    import releaf

    return os.getpid(), os.getcwd(), str(releaf.__file__)


def note(folder: Path, number: int) -> int:
    """Leave a file for each time that it is done."""
    with (folder / f"{number}").open("a") as file:
        file.write(f"{os.getpid()}\n")
    return number


def die_at_first(folder: Path, number: int) -> int:
    """The worker of every fifth number is killed, the first time."""
    first = not (folder / f"{number}").exists()
    note(folder, number)
    if first and number % 5 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die(folder: Path, number: int) -> int:
    """The worker of number 3 is killed each time."""
    note(folder, number)
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def missing_file(number: int) -> int:
    if number == 2:
        raise FileNotFoundError(2, "No such file or directory", "cases.csv")
    return number


def sleep_for_ever(folder: Path, number: int) -> int:
    note(folder, number)
    if number > 0:
        time.sleep(600)
    return number


def sleep_with(table: Any, folder: Path, number: int) -> int:
    return sleep_for_ever(folder, number)


def counted(function: Any, folder: Path, run: Any) -> Any:
    """What a function does, with a file for each run that is done and a line for each time."""
    with (folder / run.key).open("a") as file:
        file.write("once\n")
    return function(run)


def counted_slowly(function: Any, folder: Path, run: Any) -> Any:
    """The same for what is executed, not found, and takes its time."""
    outcome = function(run)
    if not getattr(outcome, "kept", False):
        note(folder, run.seed)
        time.sleep(0.2)
    return outcome


def deadly(function: Any, seeds: tuple[int, ...], run: Any) -> Any:
    if run.seed in seeds:
        os.kill(os.getpid(), signal.SIGKILL)
    return function(run)


def stuck_on(folder: Path, node: str, number: int) -> int:
    """On one node of a cluster tasks never end; on the others they leave it the time to get one."""
    import ray

    if ray.get_runtime_context().get_node_id() == node:
        note(folder, number)
        time.sleep(600)
    time.sleep(0.5)
    return number * number


def without_seconds(ledgers: list[Any]) -> list[dict[str, Any]]:
    """What runs gave, whoever did them."""
    return [{**ledger.to_dict(), "seconds": 0.0} for ledger in ledgers]


class Odd(Exception):
    """Its message is all that is pickled, which is not enough to make another."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(f"{what} number {number}")


def odd(folder: Path, number: int) -> int:
    note(folder, number)
    if number == 1:
        raise Odd("odd", number)
    return number


def leave(folder: Path, number: int) -> int:
    note(folder, number)
    if number == 1:
        raise SystemExit(3)
    return number


class Illegible:
    """A result that can be sent, and not be read."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def illegible(folder: Path, number: int) -> Any:
    return Illegible() if note(folder, number) == 1 else number


def fail_last(folder: Path, number: int) -> int:
    """The second of three fails, when the third is done."""
    while number == 1 and not (folder / "2").exists():
        time.sleep(0.01)
    if number == 1:
        time.sleep(1.5)  # so that the third's result has arrived
    note(folder, number)
    if number == 1:
        raise ValueError("wrong")
    return number
