"""Programs that are stopped while their workers are busy, or before these are: nothing stays, little is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from polling import TIMEOUT_SECONDS, is_alive, recorded_processes, wait_until

pytestmark = pytest.mark.xdist_group("ray")

# --- a stop in mid-sweep --------------------------------------------------------------------------------------

PROGRAM = """
import sys, time
from functools import partial
from pathlib import Path
import executor_tasks
from releaf import evaluate
from releaf.executors import Local, Ray

store, counts, address, block_at = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
told = []

def tell(run, _, kept):
    print(kept, run.key, flush=True)
    told.append(run)
    if len(told) == block_at:  # here the program is stopped, while its workers are busy
        time.sleep(600)

class Counting:
    def __init__(self, executor):
        self.executor = executor
    def map(self, function, runs):
        return self.executor.map(partial(executor_tasks.count_runs, function, counts), runs)

if __name__ == "__main__":
    tried = {"LinUCB": {"alpha": [0.1, 0.3, 1.0]}, "UCB1": {}, "Random": {}}
    runs = evaluate.grid(tried, {"breast_cancer": {"steps": [100, 200]}}, seeds=range(30))
    assert len(runs) == 300
    executor = Counting(Local(2) if address == "cores" else Ray(address))
    evaluate.sweep(runs, evaluate.Store(store), executor, tell)
"""


@pytest.mark.parametrize(("where", "how"), [("cores", signal.SIGINT), ("ray", signal.SIGKILL), ("ray", signal.SIGINT)])
def test_of_300_runs_none_is_done_again_after_a_stop(
    where: str, how: signal.Signals, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = "cores" if where == "cores" else request.getfixturevalue("two_nodes").address
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "counts").mkdir()
    command = [sys.executable, *(str(tmp_path / name) for name in ("program.py", "runs", "counts")), address]
    settings: dict[str, Any] = {"env": os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, "text": True}
    said = tmp_path / "said"
    with (
        said.open("w") as errors,
        subprocess.Popen([*command, "100"], stdout=subprocess.PIPE, stderr=errors, **settings) as process,
    ):
        assert process.stdout is not None
        for _ in range(100):
            assert process.stdout.readline().startswith("False "), said.read_text()
        process.send_signal(how)
        process.communicate(timeout=TIMEOUT_SECONDS)
    finished = {path.stem: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*.parquet")}
    assert len(finished) == 100
    done = subprocess.run([*command, "0"], capture_output=True, timeout=2 * TIMEOUT_SECONDS, check=True, **settings)
    kept = {key for told, key in map(str.split, done.stdout.splitlines()) if told == "True"}
    assert kept == set(finished)
    files = {path.stem: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*.parquet")}
    assert len(files) == done.stdout.count("\n") == 300
    assert all(files[key] == written for key, written in finished.items())
    executions = {path.name: len(path.read_text().splitlines()) for path in (tmp_path / "counts").iterdir()}
    assert set(executions) == set(files)
    assert all(executions[key] == 1 for key in finished)
    assert sum(executions.values()) <= 300 + 8  # what was in flight


# --- what a program leaves behind -----------------------------------------------------------------------------

LONG = """
import sys
from functools import partial
from pathlib import Path
import numpy as np
import executor_tasks
from releaf.executors import Local, shared_function

if sys.argv[2] == "named":
    shared_function._proc_fd_is_readable = lambda: False

if __name__ == "__main__":
    work = partial(executor_tasks.sleep_forever_with, np.zeros(100_000), Path(sys.argv[1]))
    list(Local(2).map(work, range(1, 5)))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("file", ["nameless", "named"])
def test_workers_and_files_go_with_a_program_that_is_killed(file: str, how: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(LONG)
    (temporary := tmp_path / "temporary").mkdir()
    (asleep := tmp_path / "asleep").mkdir()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(temporary)}
    command = [sys.executable, str(tmp_path / "program.py"), str(asleep), file]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: len(recorded_processes(asleep)) == 2)
        workers = recorded_processes(asleep)
        assert all(map(is_alive, workers))
        process.send_signal(how)
        assert process.wait(timeout=TIMEOUT_SECONDS) == -how
    wait_until(lambda: not any(map(is_alive, workers)))
    wait_until(lambda: not list(temporary.glob("releaf-shared-*")))


STARTING = """
import sys, time
from pathlib import Path
import executor_tasks
from releaf.executors import Local

if __name__ == "__main__":
    print(*Local(2).map(executor_tasks.square, range(4)))
else:
    (Path(sys.argv[1]) / "starting").touch()
    time.sleep(600)
"""


def test_workers_that_start_say_nothing_of_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(STARTING)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path)]
    settings: dict[str, Any] = {"stderr": subprocess.PIPE, "env": environment, "text": True}
    with subprocess.Popen(command, start_new_session=True, **settings) as process:
        wait_until(lambda: (tmp_path / "starting").exists())
        for worker in psutil.Process(process.pid).children():
            worker.send_signal(signal.SIGINT)
        time.sleep(0.5)  # which they would need to say so
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT_SECONDS)
    assert said.count("Traceback") == 1
    assert "spawn_main" not in said


def test_a_command_that_is_interrupted_while_its_workers_start_says_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "releaf", "compare", "ContextualZooming", "--steps", "1000000", "--workers", "2"]
    settings: dict[str, Any] = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": tmp_path}
    settings["env"] = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, start_new_session=True, **settings) as process:
        program = psutil.Process(process.pid)
        workers = wait_until(
            lambda: [child for child in program.children() if "spawn_main" in " ".join(child.cmdline())]
        )
        for worker in workers:
            worker.send_signal(signal.SIGINT)
        time.sleep(0.5)  # which they would need to say so
        os.killpg(process.pid, signal.SIGINT)
        told, said = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (process.returncode, told, said) == (130, "", "Stopped.\n")
