"""The installed packages that releaf and its extras need: their sizes and licences."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
# Extras for users; the others are for those who change releaf.
EXTRAS = ("tables", "plots", "sklearn", "river", "client", "service", "otel", "ray", "reproduce")


def requirements(extra: str = "") -> list[Requirement]:
    """What pyproject.toml lists: the package's own requirements, or those of an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return [Requirement(line) for line in listed]


def closure(extra: str = "") -> dict[str, Distribution]:
    """All installed distributions that ``pip install releaf[extra]`` would install, by name, without releaf.

    Raises
    ------
    PackageNotFoundError
        If one of them is not installed.
    """
    found: dict[str, Distribution] = {}
    pending = [*requirements(), *(requirements(extra) if extra else [])]
    seen: set[tuple[str, frozenset[str]]] = set()
    while pending:
        wanted = pending.pop()
        name, extras = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if (name, extras) in seen or not _applies(wanted, frozenset()):
            continue
        seen.add((name, extras))
        if name == "releaf":
            pending += [line for more in extras for line in requirements(more)]
            continue
        found[name] = distribution(name)
        further = map(Requirement, found[name].requires or [])
        pending += [line for line in further if _applies(line, extras)]
    return dict(sorted(found.items()))


def _applies(wanted: Requirement, extras: frozenset[str]) -> bool:
    marker = wanted.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, ""))


def size(package: Distribution) -> int:
    """Bytes of the installed files, compiled Python included."""
    paths = (Path(str(file.locate())) for file in package.files or [])
    return sum(path.stat().st_size for path in paths if path.is_file())


def licence(package: Distribution) -> str:
    """The licence as the package's metadata state it: the SPDX expression, else classifiers, else the free text."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    prefix = "License :: "
    classifiers = [line.split(" :: ")[-1] for line in metadata.get_all("Classifier") or [] if line.startswith(prefix)]
    named = [line for line in classifiers if line != "OSI Approved"]
    if named:
        return " AND ".join(sorted(named))
    text = metadata["License"].strip() if "License" in metadata else ""
    return re.sub(r"\s+", " ", text.splitlines()[0]) if text else ""


def installed_extras() -> Iterator[str]:
    """The extras of which everything is installed here."""
    for extra in EXTRAS:
        try:
            closure(extra)
        except PackageNotFoundError:
            continue
        yield extra
