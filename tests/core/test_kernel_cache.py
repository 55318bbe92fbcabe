"""The kernel cache: read-only installations, concurrent processes and damaged files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import releaf

PACKAGE = Path(releaf.__file__).parent
PROGRAM = """
import releaf
bandit = releaf.Releaf(2, 2, seed=0)
for step in range(50):
    choice = bandit.decide([0.2, 0.7])
    if choice.wants_reward:
        bandit.learn(choice, 1.0)
print(releaf.__file__, bandit.explorations)
"""


def start(package_parent: Path, **environment: str) -> subprocess.Popen[str]:
    variables = {**os.environ, "PYTHONPATH": str(package_parent), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output


def copy_package(folder: Path) -> Path:
    shutil.copytree(PACKAGE, folder / "releaf", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_an_install_without_any_folder_to_write_to_runs(tmp_path: Path) -> None:
    """No cache beside the sources (a file is in the way, which stops root too) and none at home."""
    installed = copy_package(tmp_path)
    blocked = tmp_path / "not-a-folder"
    blocked.write_text("")
    core = installed / "releaf" / "core"
    for package in [core, *(path for path in core.iterdir() if path.is_dir())]:
        (package / "__pycache__").write_text("")
    environment = {"HOME": str(blocked), "XDG_CACHE_HOME": str(blocked), "NUMBA_CACHE_DIR": ""}
    output = finish(start(installed, **environment))
    assert str(installed) in output
    assert not list(tmp_path.rglob("*.nbc"))


def test_processes_that_start_together_share_one_cache(tmp_path: Path) -> None:
    installed = copy_package(tmp_path)
    outputs = {finish(process) for process in [start(installed) for _ in range(3)]}
    assert len(outputs) == 1
    assert list(tmp_path.rglob("*.nbc"))


def test_a_damaged_cache_file_is_compiled_anew(tmp_path: Path) -> None:
    installed = copy_package(tmp_path)
    expected = finish(start(installed))
    for rest in (b"", b"\0" * 5000):
        for file in tmp_path.rglob("*.nbc"):
            file.write_bytes(file.read_bytes()[:500] + rest)
        assert finish(start(installed)) == expected


def test_importing_the_package_does_not_import_the_compiler() -> None:
    program = "import sys, releaf; print('numba' in sys.modules, 'typer' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert output.stdout.split() == ["False", "False"]


KERNEL = """
import numpy as np
from releaf.arrays import Array
from releaf.core.runtime.entry_points import state_entry_point
from releaf.core.runtime.jit import inlined
from releaf.core.runtime.state import LearnerState, learnt

class Total(LearnerState):
    total: Array = learnt(np.float64, 1)

@inlined
def add(state):
    state.total[0] += AMOUNT
    return state.total[0]

print(state_entry_point(add, Total, arguments=0)(Total(total=np.zeros(1)).pointer_table))
"""


def test_a_kernel_outside_of_the_package_is_compiled_anew_when_its_source_changes(tmp_path: Path) -> None:
    script = tmp_path / "kernel.py"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    printed = []
    for amount in ("1.0", "1.0", "2.0"):
        script.write_text(KERNEL.replace("AMOUNT", amount))
        command = [sys.executable, str(script)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
        printed.append(float(done.stdout))
    assert printed == [1.0, 1.0, 2.0]
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == 2
