"""What a run of the quality benchmarks is told by environment variables, and how it tells its progress."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Say
from benchmarks.quality.split import SPLITS

SEEDS = 10
ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "quality"
PICTURES = ROOT / "docs" / "results"
OPEN = SPLITS[:2]  # what is run unless a part is asked for
# Computing time is that of one thread, whoever computes.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def splits() -> tuple[str, ...]:
    """``RELEAF_QUALITY_SPLIT``: one of the three parts; development and validation by default."""
    asked = os.environ.get("RELEAF_QUALITY_SPLIT")
    if asked is None:
        return OPEN
    if asked not in SPLITS:
        raise SystemExit(f"RELEAF_QUALITY_SPLIT={asked}: expected {', '.join(SPLITS)}")
    if asked == "sealed" and _is_changed():
        raise SystemExit("The sealed data sets are run for a commit: commit the changes of src and benchmarks first.")
    return (asked,)


def suffix() -> str:
    """What tells the files of one part of the split, or of some methods or data sets, from those of a default run."""
    parts = [os.environ["RELEAF_QUALITY_SPLIT"]] if "RELEAF_QUALITY_SPLIT" in os.environ else []
    if any(names(variable) for variable in ("RELEAF_QUALITY_METHODS", "RELEAF_QUALITY_DATA")):
        parts.append("some")
    return "".join(f"-{part}" for part in parts)


def pictures() -> Path:
    """The documentation's folder; another one for what is no result."""
    return KEPT if suffix().endswith("-some") else PICTURES


def seeds(default: int = SEEDS) -> int:
    """``RELEAF_QUALITY_SEEDS``: the number of shuffles."""
    return int(os.environ.get("RELEAF_QUALITY_SEEDS", default))


def workers() -> int | None:
    """``RELEAF_QUALITY_WORKERS``: the number of processes; one for each core by default."""
    return int(os.environ["RELEAF_QUALITY_WORKERS"]) if "RELEAF_QUALITY_WORKERS" in os.environ else None


def names(variable: str) -> list[str] | None:
    """Names between semicolons, since some have commas; None where there are none."""
    given = [name.strip() for name in os.environ.get(variable, "").split(";")]
    return [name for name in given if name] or None


def one_thread() -> None:
    """Before any worker starts: libraries read these when they are loaded."""
    for variable in _THREADS:
        os.environ.setdefault(variable, "1")


def _is_changed() -> bool:
    command = ["git", "status", "--porcelain", "src", "benchmarks", ":!benchmarks/results"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return True
    return bool(found.stdout.strip())


def report(lines: list[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


def progress(say: Say, name: str) -> Callable[[int, int, float], None]:
    """Tells how far it is: a bar for a terminal; what stands before the colon, for a log, changes with every tenth."""
    tenth, subject = 0, name

    def tell(done: int, total: int, seconds: float) -> None:
        nonlocal tenth, subject
        if 10 * done // total != tenth:
            tenth = 10 * done // total
            subject = f"{name}, {10 * tenth} % done, about {_duration(seconds)} left"
        bar = "━" * round(30 * done / total)
        say(f"{subject}: {bar:╌<30} {done:,} of {total:,} runs, {_duration(seconds)} left")

    return tell


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"
