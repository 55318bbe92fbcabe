"""What a bare `import releaf` loads, and what it reaches."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numba", "pandas", "polars", "pyarrow", "narwhals", "sklearn", "altair", "typer", "rich", "ray", "scipy")


def output_of(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.strip()


def test_a_bare_import_loads_nothing_heavy() -> None:
    loaded = output_of(f"import sys, releaf; dir(releaf); print([name for name in {HEAVY} if name in sys.modules])")
    assert loaded == "[]"


def test_a_bare_import_takes_little_more_than_that_of_numpy() -> None:
    """Processor time, the least of several runs: 1.6 times that of NumPy was measured, 0.10 s in all."""

    def seconds(name: str) -> float:
        program = f"import time; start = time.process_time(); import {name}; print(time.process_time() - start)"
        return min(float(output_of(program)) for _ in range(5))

    assert seconds("releaf") <= 3 * seconds("numpy")


@pytest.mark.parametrize(
    "name", ["ensembles", "evaluate", "executors", "mlflow", "plot", "river", "sklearn", "streams"]
)
def test_a_module_is_reachable_after_a_bare_import(name: str) -> None:
    program = f"import releaf; print('{name}' in dir(releaf), releaf.{name}.__name__)"
    if name in ("river", "sklearn"):
        pytest.importorskip(name)
    assert output_of(program) == f"True releaf.{name}"


def test_streams_and_evaluation_load_no_tables_and_no_charts() -> None:
    heavy = tuple(name for name in HEAVY if name not in ("numba", "scipy"))  # Numba imports SciPy
    program = f"import sys, releaf; releaf.streams, releaf.evaluate; print([n for n in {heavy} if n in sys.modules])"
    assert output_of(program) == "[]"


def test_an_unknown_name_is_no_attribute() -> None:
    assert output_of("import releaf; print(hasattr(releaf, 'magic'))") == "False"
    assert output_of("from releaf import *; print('Releaf' in dir(), 'sklearn' in dir())") == "True False"
