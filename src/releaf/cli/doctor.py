"""`releaf doctor`: versions, caches and missing optional packages."""

from __future__ import annotations

from typing import Any

from releaf._version import __version__
from releaf.cli.console import Json, console, print_json

PACKAGES = {
    "numpy": "numpy",
    "numba": "numba",
    "narwhals": "narwhals",
    "pyarrow": "tables",
    "pandas": "",
    "polars": "",
    "scikit-learn": "sklearn",
    "river": "river",
    "altair": "plots",
    "vl-convert-python": "plots",
    "httpx": "client",
    "starlette": "service",
    "uvicorn": "service",
    "apsw": "service",
    "asyncpg": "service",
    "ray": "ray",
}


def doctor(as_json: Json = False) -> None:
    """Show versions, the folders of compiled kernels and data, and missing optional packages."""
    import os
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from releaf.core.runtime import jit
    from releaf.streams.data_files import cache_folder, find

    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    kernels = jit.kernel_cache()
    report: dict[str, Any] = {
        "releaf": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "packages": versions,
        "kernels": {"folder": str(kernels.folder), "compiled": kernels.compiled, "writable": kernels.writable},
        "cache": str(cache_folder()),
        "intrusion data": str(find("kddcup.data_10_percent.gz") or ""),
    }
    if as_json:
        print_json(report)
        return
    _show_doctor(report)


def _show_doctor(report: dict[str, Any]) -> None:
    from rich.markup import escape

    from releaf.report.terminal import table

    made = table(f"releaf {report['releaf']}, Python {report['python']}, {report['machine']}", "")
    made.add_column("")
    made.add_column("")
    made.add_column("", style="dim")
    for package, version in report["packages"].items():
        extra = PACKAGES[package]
        alone = not extra or (extra == package and package != "ray")  # which needs more than itself
        name = f"pip install {package}" if alone else f'pip install "releaf[{extra}]"'
        state, hint = (version, "") if version else ("[yellow]not installed[/]", escape(name))
        made.add_row(package, state, hint)
    kernels = report["kernels"]
    state = f"{kernels['compiled']} compiled" if kernels["compiled"] else "[yellow]none compiled yet[/]"
    hint = (
        escape(kernels["folder"])
        if kernels["writable"]
        else "[red]folder can't be written: compiled in each process[/]"
    )
    made.add_row("kernels", state, hint if kernels["compiled"] or not kernels["writable"] else "releaf warmup")
    data = report["intrusion data"]
    made.add_row(
        "intrusion data", "here" if data else "[yellow]not here[/]", escape(data or "releaf reproduce intrusion")
    )
    made.add_row("downloads", "", escape(report["cache"]))
    console.print(made)
