"""The dependencies of releaf and its extras have licences that we allow, and the page of sizes is of these extras."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from dependencies import EXTRAS, closure, licence

ROOT = Path(__file__).parents[1]
# Permissive licences, by SPDX and by the names that packages give them. Weak copyleft only where it is named below.
ALLOWED = {
    *("MIT", "MIT License", "MIT-0", "0BSD", "ISC", "ISC License (ISCL)", "Zlib", "CC0-1.0", "PSF-2.0", "Unlicense"),
    *("BSD License", "BSD-2-Clause", "BSD-3-Clause", "3-Clause BSD License", "Python Software Foundation License"),
    *("Apache-2.0", "Apache 2.0", "Apache Software License", "Apache-2.0 WITH LLVM-exception"),
    "any-OSI",  # apsw: any licence that the Open Source Initiative has approved
}
EXCEPTIONS = {"certifi": "Mozilla Public License 2.0 (MPL 2.0)"}  # a list of certificates, which we do not change
OF_DEVELOPERS = {"bench", "dev", "docs"}


def is_allowed(expression: str) -> bool:
    """Whether all licences of an expression are allowed, or one of each alternative."""
    return bool(expression) and all(
        any({one.strip(), one.strip("() ")} & ALLOWED for one in part.split(" OR "))
        for part in expression.split(" AND ")
    )


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_every_dependency_has_an_allowed_licence(extra: str) -> None:
    try:
        packages = closure(extra)
    except PackageNotFoundError as missing:
        pytest.skip(f"{missing} is not installed")
    assert len(packages) >= 5
    refused = {name: licence(package) for name, package in packages.items() if not is_allowed(licence(package))}
    assert refused == {name: EXCEPTIONS[name] for name in refused if name in EXCEPTIONS}


def test_a_copyleft_licence_or_none_is_refused() -> None:
    assert is_allowed("Apache-2.0 OR GPL-3.0-only")
    assert is_allowed("BSD-3-Clause AND (MIT)")
    for refused in ("", "GPL-3.0-only", "MIT AND AGPL-3.0-or-later", "Other/Proprietary License"):
        assert not is_allowed(refused)


def test_an_extra_is_for_users_or_for_developers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(project["optional-dependencies"]) == {*EXTRAS, *OF_DEVELOPERS}


def test_the_page_has_the_packages_and_about_the_size_of_every_extra() -> None:
    command = [sys.executable, str(ROOT / "tools" / "make_install_sizes.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
