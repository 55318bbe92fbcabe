"""Write the table of docs/reference/install.md: what each extra installs, and how large it is on this machine.

    python tools/make_install_sizes.py [--check]

With --check, the page is compared with what pyproject.toml lists, and sizes with those of this machine, within a factor
of 1.5: they differ between versions and systems.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from dependencies import EXTRAS, closure, requirements, size

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "install.md"
BEGIN, END = "<!-- sizes: made by tools/make_install_sizes.py -->", "<!-- end of sizes -->"
USES = {
    "": "learners, policies, evaluation, the commands on CSV",
    "tables": "Parquet and Arrow files",
    "plots": "charts as HTML, PNG and SVG",
    "sklearn": "`releaf.sklearn`, base classifiers, doubly robust estimates",
    "river": "`releaf.river`",
    "client": "`releaf.client`",
    "service": "`releaf serve`, with the client",
    "otel": "spans and metrics of `releaf serve` by OpenTelemetry",
    "ray": "training and sweeps on a Ray cluster",
    "reproduce": "the paper's experiments with a report",
}
TOLERANCE = 1.5


def rows() -> list[tuple[str, int, float, str]]:
    """Each extra with its packages, their size in MB, and its own requirements."""
    made = []
    for extra in ("", *EXTRAS):
        packages = closure(extra)
        named = ", ".join(sorted({str(line.name) + _extras(line.extras) for line in requirements(extra)}))
        made.append((extra, len(packages), sum(map(size, packages.values())) / 1e6, named))
    return made


def _extras(names: set[str]) -> str:
    return f"[{','.join(sorted(names))}]" if names else ""


def table() -> str:
    lines = ["| install | for | packages | MB | of which listed by releaf |", "|---|---|---|---|---|"]
    for extra, count, megabytes, named in rows():
        target = f'`pip install ".[{extra}]"`' if extra else "`pip install .`"
        lines.append(f"| {target} | {USES[extra]} | {count} | {megabytes:,.0f} | {named} |")
    return "\n".join(lines)


def sizes_in(text: str) -> dict[str, tuple[float, str]]:
    """The size and the listed packages of each extra in a table."""
    found = re.findall(r'^\| `pip install "?\.(?:\[(\w+)\]")?`.*\| ([\d,]+) \| ([^|]+) \|$', text, re.MULTILINE)
    return {extra: (float(megabytes.replace(",", "")), named) for extra, megabytes, named in found}


def problems(page: str) -> list[str]:
    """What a page says that is not so."""
    stated, real = sizes_in(page), sizes_in(table())
    lacking = [f"the page lacks [{extra}]" for extra in real if extra not in stated]
    wrong = [
        f"[{extra}]: the page has {stated[extra]}, it is {real[extra]}"
        for extra in real.keys() & stated.keys()
        if stated[extra][1] != real[extra][1] or not 1 / TOLERANCE <= stated[extra][0] / real[extra][0] <= TOLERANCE
    ]
    return lacking + wrong


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv[1:]:
        found = problems(page)
        sys.exit("\n".join(found) if found else 0)
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
