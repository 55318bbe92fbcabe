"""``python -m benchmarks``: run the benchmarks, write their results, print one table."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Finding, Say, machine

# Memory and start come first, when this process has not filled the caches of the machine yet.
NAMES = (
    *("memory", "start", "replay", "libraries", "adaptive", "estimators", "linear", "policies", "tuning", "scaling"),
    *("train", "off_policy", "frozen", "actions", "budgets"),
)
TABLED = ("quality", "labels")  # with tables of their own
APART = (
    *TABLED,
    "coverage",
    "leading",
    "false_relevance",
    "service",
    "storage",
    "scale",
    "staleness",
)  # hours, servers, clusters: only when named
QUICK = ("service",)  # which can be shorter
RESULTS = Path(__file__).parent / "results"
LONGEST_LINE = 160
VERDICTS = {True: "[green]met[/]", False: "[red]missed[/]", None: "[dim]for information[/]"}


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.quick and not set(given.names) & set(QUICK) == set(given.names) != set():
        parser.error(f"--quick goes with {', '.join(QUICK)} only")
    names = given.names or NAMES
    console = Console()
    findings = {}
    for name in names:
        module = importlib.import_module(f"benchmarks.{name}")
        with _progress(console, name) as say:
            findings[name] = module.run(say, quick=True) if given.quick else module.run(say)
        result = module.result_name() if name in TABLED else name
        _write(f"{result}-quick" if given.quick else result, findings[name])
    _show(findings, Console(width=None if console.is_terminal else 120))
    return 0


def _show(findings: dict[str, list[Finding]], console: Console) -> None:
    """One table for all, and the tables of those that have their own."""
    for name in TABLED:
        if name in findings:
            importlib.import_module(f"benchmarks.{name}").show(findings.pop(name), console)
    if findings:
        console.print(_table([finding for some in findings.values() for finding in some]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure releaf's speed, memory and quality. Results go to benchmarks/results, a JSON file each.",
        epilog="example: python -m benchmarks replay libraries",
    )
    help_ = f"any of {', '.join(NAMES)}, which is the default, and {', '.join(APART)}"
    parser.add_argument("names", nargs="*", metavar="name", type=_known, help=help_)
    parser.add_argument(
        "--quick", action="store_true", help=f"shorter, for {', '.join(QUICK)} only; the result's name ends with -quick"
    )
    return parser


def _known(name: str) -> str:
    if name not in (*NAMES, *APART):
        raise argparse.ArgumentTypeError(f"{name!r} is not a benchmark: expected {', '.join((*NAMES, *APART))}")
    return name


@contextmanager
def _progress(console: Console, name: str) -> Iterator[Say]:
    """A line that tells what is being done; where there is no terminal, a line for each thing that is measured."""
    told: list[str] = []

    def tell(text: str) -> None:
        subject = text.split(":")[0]
        if subject not in told:
            told.append(subject)
            print(f"{subject} …", file=sys.stderr, flush=True)

    if not console.is_terminal:
        yield tell
        return
    with console.status(name) as status:
        yield status.update


def _write(name: str, findings: list[Finding]) -> None:
    RESULTS.mkdir(exist_ok=True)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    report = {"benchmark": name, "date": date, "machine": machine()}
    report["findings"] = [finding.to_dict() for finding in findings]
    (RESULTS / f"{name}.json").write_text(_compact(json.dumps(report, indent=2, ensure_ascii=False)) + "\n")


def _compact(text: str) -> str:
    """Indented JSON with the innermost objects and lists on one line each, unless they are long."""

    def joined(match: re.Match[str]) -> str:
        line = " ".join(match[0].split())
        return line if len(line) <= LONGEST_LINE else match[0]

    return re.sub(r"[\[{][^\[\]{}\"]*(?:\"(?:[^\"\\]|\\.)*\"[^\[\]{}\"]*)*[\]}]", joined, text)


def _table(findings: list[Finding]) -> Table:
    table = Table("what was measured", title="releaf, measured")
    table.add_column("measured", justify="right")
    table.add_column("target", justify="right")
    table.add_column("verdict")
    for finding in findings:
        table.add_row(finding.what, f"{finding.value:.3g} {finding.unit}", finding.target, VERDICTS[finding.met])
    return table


if __name__ == "__main__":
    sys.exit(main())
