"""Console, progress bars, error messages and JSON output, shared by all commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

console = Console()
if not console.is_terminal:
    console = Console(width=max(console.width, 120))  # no terminal: don't wrap tables
errors = Console(stderr=True, soft_wrap=True)
MAX_PROBLEM_LINES = 20  # unusable rows, and errors, that are listed one by one

Workers = Annotated[
    int | None, typer.Option(min=1, help="Number of parallel tasks (one per core, or per CPU of the cluster).")
]
OnRay = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Work on a Ray cluster: auto, host:port, or local to start one."),
]
Model = Annotated[Path, typer.Argument(help="A learner that `releaf train` or `save` wrote.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class RateColumn(ProgressColumn):
    """Steps per second, or seconds per step where one takes longer than a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        return Text(f"{speed:,.0f}/s" if speed >= 1 else f"{1 / speed:,.1f} s each", style="progress.data.speed")


def progress_bar(*, of_bytes: bool = False) -> Progress:
    """A progress bar with the rate and the remaining time on stderr, if that is a terminal."""
    amount = (DownloadColumn(), TransferSpeedColumn()) if of_bytes else (MofNCompleteColumn(), RateColumn())
    columns = (TextColumn("{task.description:<34}"), BarColumn(), *amount, TimeRemainingColumn())
    return Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)


def require(extra: str, *packages: str) -> None:
    """Fail with the install command if a package is missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        fail(f'this needs {", ".join(missing)}: pip install "releaf[{extra}]", or ".[{extra}]" in a clone')


def check_ray_address(address: str | None) -> None:
    """Validate the address of a cluster before any work is done."""
    if address is not None:
        from releaf.executors.ray_connection import check_address

        require("ray", "ray")
        with error_messages():
            check_address(address)


def fail(message: str) -> None:
    """Print an error message and exit with code 1."""
    errors.print(f"[red]Error:[/] {escape(message)}", highlight=False)
    raise typer.Exit(1)


@contextmanager
def error_messages() -> Iterator[None]:
    """Turn expected exceptions into a message and exit code 1, and Ctrl-C into 130."""
    from releaf.core.runtime.state_file import StateError
    from releaf.streams.data_files import DataError, UnusableRowError

    expected = (ValueError, TypeError, ImportError, OSError, EOFError, StateError, DataError)
    try:
        yield
    except BrokenPipeError:  # the reader has closed the pipe
        sys.stderr.close()
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        errors.print("Stopped.")
        raise typer.Exit(130) from None
    except FileNotFoundError as error:
        fail(f"there is no file {error.filename}" if error.filename else str(error))
    except IsADirectoryError as error:
        fail(f"{error.filename} is a folder: expected a file (only `releaf train` reads folders)")
    except UnusableRowError as error:
        fail(f"{_message_of(error)}\nWith --skip-bad, unusable rows are skipped and listed.")
    except expected as error:
        fail(_message_of(error))
    except ExceptionGroup as group:
        if group.split(expected)[1] is not None:
            raise
        messages = [_message_of(error) for error in group.exceptions]
        rest = [f"… and {len(messages) - MAX_PROBLEM_LINES:,} more"] if len(messages) > MAX_PROBLEM_LINES else []
        fail("\n".join([group.message, *messages[:MAX_PROBLEM_LINES], *rest]))


def _message_of(error: BaseException) -> str:
    """An error message with its notes, which name the task."""
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def print_json(data: Any) -> None:
    print(json.dumps(data, ensure_ascii=False, default=str))


def show_problems(source: str, unit: str, problems: list[tuple[int, str]], count: int) -> None:
    """Print the skipped rows, the first ones one by one."""
    if not count:
        return
    errors.print(f"[yellow]{count:,} unusable rows were skipped:[/]")
    for line, why in problems[:MAX_PROBLEM_LINES]:
        errors.print(f"  {escape(source)}, {unit} {line}: {escape(why)}", highlight=False)
    if count > MAX_PROBLEM_LINES:
        errors.print(f"  … and {count - MAX_PROBLEM_LINES:,} more")
