"""The wheel that `make dist` builds works by itself, where nothing else of the repository can be imported."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import releaf

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return {"".join(path.suffixes[-1:]): path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def python(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a new environment with the wheel, and with this environment's packages as its dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=300)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(built[".whl"]) as wheel:  # the wheel is pure Python: installing it is unpacking it
        wheel.extractall(site)
    paths = [path for path in sys.path if path.endswith("site-packages") and Path(path).is_dir()]
    (site / "dependencies.pth").write_text("\n".join(dict.fromkeys([*paths, sysconfig.get_paths()["purelib"]])))
    return folder / "bin" / "python"


def test_the_wheel_is_of_this_version_and_has_all_that_is_no_python(built: dict[str, Path]) -> None:
    assert built[".whl"].name == f"releaf-{releaf.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(built[".whl"]) as wheel:
        names = set(wheel.namelist())
    sources = (path for path in (ROOT / "src" / "releaf").rglob("*") if path.is_file())
    expected = {path.relative_to(ROOT / "src").as_posix() for path in sources if "__pycache__" not in path.parts}
    assert expected <= names
    assert not any(name.startswith(("tests/", "tools/")) for name in names)


def test_the_readme_runs_from_the_wheel(python: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), str(ROOT / "tools" / "run_readme.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "examples ran with Python" in done.stdout


def test_the_examples_are_not_run_from_the_sources(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(ROOT / "tools" / "run_readme.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "expected an installed wheel" in done.stderr


def test_python_blocks_and_commands_are_found_in_their_order() -> None:
    from run_readme import steps

    page = "```python\nx = 1\n```\n```text\ny\n```\n"
    page += "```console\n$ releaf sample \\\n  --rows 9\nshown\n$ releaf serve\n```\n"
    assert steps(page) == [("python", "x = 1\n"), ("console", "releaf sample \\\n  --rows 9")]
