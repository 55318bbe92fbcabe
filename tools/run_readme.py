"""Run the examples of a Markdown page with the Python that runs this, in an empty folder: Python blocks and commands.

    python tools/run_readme.py [PAGE]

Blocks marked ``python`` run in one scope from top to bottom, and so do lines of ``console`` blocks that begin with
``$ releaf``, except ``releaf serve``, which does not end. It needs nothing but the standard library, so that it runs in
an environment into which only the wheel was installed. It fails if releaf is imported from this folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ENDLESS = re.compile(r"releaf (serve|demo --service)\b")


def steps(text: str) -> list[tuple[str, str]]:
    """The Python blocks and commands of a page, in their order."""
    found: list[tuple[str, str]] = []
    for kind, block in BLOCK.findall(text):
        if kind == "python":
            found.append((kind, block))
            continue
        commands = re.findall(r"^\$ (releaf (?:.*\\\n)*.*)$", block, re.MULTILINE)
        found += [("console", command) for command in commands if not ENDLESS.match(command)]
    return found


def run(page: Path) -> int:
    """Run all steps of a page; returns their number, and raises at the first that fails."""
    import releaf

    if Path(releaf.__file__).is_relative_to(ROOT / "src"):
        raise RuntimeError(f"releaf is imported from {releaf.__file__}: expected an installed wheel")
    found, scope = steps(page.read_text(encoding="utf-8")), dict[str, Any]()
    shell = f'releaf() {{ "{sys.executable}" -m releaf "$@"; }}\n'
    with tempfile.TemporaryDirectory(prefix="releaf-readme-") as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            for kind, code in found:
                if kind == "python":
                    exec(compile(code, page.name, "exec"), scope)  # noqa: S102
                else:
                    subprocess.run(["bash", "-ec", shell + code], check=True)  # noqa: S603, S607
        finally:
            os.chdir(before)
    return len(found)


if __name__ == "__main__":
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "README.md"
    count = run(given)
    print(f"{given.name}: {count} examples ran with Python {sys.version.split()[0]} and the installed wheel")
    sys.exit(0 if count else f"{given} has no example")
