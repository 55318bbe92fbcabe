"""What workers are asked to do in tests of executors: importable wherever they run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any


def square(number: int) -> int:
    return number * number


def slow_square(number: int, seconds: float = 0.3) -> int:
    time.sleep(seconds)
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


def noted_slowly(folder: Path, number: int) -> int:
    note(folder, number)
    time.sleep(0.5)
    return number * number


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


def counted(function: Any, folder: Path, run: Any) -> Any:
    """What a function does, with a file for each run that is done and a line for each time."""
    with (folder / run.key).open("a") as file:
        file.write("once\n")
    return function(run)


def stuck_on(folder: Path, node: str, number: int) -> int:
    """On one node of a cluster tasks never end; on the others they leave it the time to get one."""
    import ray

    if ray.get_runtime_context().get_node_id() == node:
        note(folder, number)
        time.sleep(600)
    time.sleep(0.5)
    return number * number
