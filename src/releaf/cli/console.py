"""What the commands share: the console, bars, errors that say what to do, and JSON."""

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
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

console = Console()
if not console.is_terminal:
    console = Console(width=max(console.width, 120))  # no need to squeeze tables into a file
errors = Console(stderr=True, soft_wrap=True)
MAX_PROBLEM_LINES = 20  # broken rows, and failures, that are shown one by one

Workers = Annotated[
    int | None, typer.Option(min=1, help="How many tasks at a time (one for each core, or CPU of the cluster).")
]
OnRay = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Work on a Ray cluster: auto, host:port, or local to start one."),
]
Model = Annotated[Path, typer.Argument(help="A learner that `releaf train` or `save` wrote.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def progress_bar() -> Progress:
    """A bar with the time left, on stderr; nothing where that is no terminal."""
    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)


def require(extra: str, *packages: str) -> None:
    """Say what to install where a package is not there."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        fail(f'this needs {", ".join(missing)}: pip install "releaf[{extra}]"')


def check_ray_address(address: str | None) -> None:
    """Say what is wrong with the address of a cluster before anything is done."""
    if address is not None:
        from releaf.executors.ray_connection import check_address

        require("ray", "ray")
        with error_messages():
            check_address(address)


def fail(message: str) -> None:
    """Say what is wrong, and end with exit code 1."""
    errors.print(f"[red]Error:[/] {escape(message)}", highlight=False)
    raise typer.Exit(1)


@contextmanager
def error_messages() -> Iterator[None]:
    """Turn what users can do something about into a message and exit code 1, and Ctrl-C into 130."""
    from releaf.core.runtime.state_file import StateError
    from releaf.streams.data_files import DataError

    expected = (ValueError, TypeError, ImportError, OSError, EOFError, StateError, DataError)
    try:
        yield
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        errors.print("Stopped.")
        raise typer.Exit(130) from None
    except FileNotFoundError as error:
        fail(f"there is no file {error.filename}" if error.filename else str(error))
    except IsADirectoryError as error:
        fail(f"{error.filename} is a folder: expected a file (only `releaf train` reads folders)")
    except expected as error:
        fail(_told(error))
    except ExceptionGroup as group:
        if group.split(expected)[1] is not None:
            raise
        told = [_told(error) for error in group.exceptions]
        rest = [f"… and {len(told) - MAX_PROBLEM_LINES:,} more"] if len(told) > MAX_PROBLEM_LINES else []
        fail("\n".join([group.message, *told[:MAX_PROBLEM_LINES], *rest]))


def _told(error: BaseException) -> str:
    """An error with its notes, which tell of which task it is."""
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def print_json(data: Any) -> None:
    print(json.dumps(data, ensure_ascii=False, default=str))


def show_problems(source: str, unit: str, problems: list[tuple[int, str]], count: int) -> None:
    """The rows that were left out, one by one as far as that helps."""
    if not count:
        return
    errors.print(f"[yellow]{count:,} broken rows were left out:[/]")
    for line, why in problems[:MAX_PROBLEM_LINES]:
        errors.print(f"  {escape(source)}, {unit} {line}: {escape(why)}", highlight=False)
    if count > MAX_PROBLEM_LINES:
        errors.print(f"  … and {count - MAX_PROBLEM_LINES:,} more")
