"""Markers of what tests need, and a Ray cluster of two nodes for those that need one.

Those are of one xdist group, "ray": with ``--dist loadgroup`` one worker runs them with one cluster, otherwise each
worker starts its own.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from frozen_policies import EvaluatorProcess, open_node, open_plain_python
from setup_markers import mark_by_setup

from releaf.executors import Executor, Local, Ray

TESTS = Path(__file__).parent
SLOW = (  # folders and files of tests that take long to run, by measured CPU time
    *("docs/test_docs.py", "end_to_end/", "executors/", "paper/"),
    *(
        "cli/test_cli.py",
        "cli/test_commands.py",
        "cli/test_manual.py",
        "service/test_experiment_state.py",
        "train/test_parallel_fit.py",
    ),
    *(
        "evaluate/test_ledger_and_estimators.py",
        "evaluate/test_propensities.py",
        "evaluate/test_sweeps.py",
        "core/test_exactness.py",
    ),
    *("core/test_interval_rewards.py", "core/test_kernel_cache.py", "core/test_state_check.py"),
    *("frozen/test_exact_decisions.py", "frozen/test_random_schemas.py"),
    *("core/test_compile_notice.py", "core/test_learner_state.py", "docs/test_life_of_a_decision.py"),
    *("policies/test_adaptive_", "policies/test_guarantees.py", "policies/test_zooming.py"),
)
SMALL = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job of a shell; tests interrupt programs
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Loopback addresses only, for Ray in this process and in all that tests start: it heeds this when it is imported, and a
# program that does otherwise would look for the cluster at another address than it listens at.
os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they need, and by their folder, so that ``make quick`` can leave them out."""
    for item in items:
        mark_by_setup(item)
        if item.path.is_relative_to(TESTS) and str(item.path.relative_to(TESTS)).startswith(SLOW):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A head and another node of one CPU each, that listen to this machine only, and start in a folder of their own."""
    pytest.importorskip("ray", reason='needs Ray: pip install "releaf[ray]"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patch.chdir(tmp_path_factory.mktemp("nodes"))
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={**SMALL, "include_dashboard": False})
        made.add_node(**SMALL)
    yield made
    made.shutdown()


@pytest.fixture
def two_nodes(cluster: Any) -> Any:
    """The cluster, with another second node where a test has killed it."""
    if not cluster.worker_nodes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
            cluster.add_node(**SMALL)
    return cluster


@pytest.fixture(params=["local", "ray"])
def engine(request: pytest.FixtureRequest) -> Callable[..., AbstractContextManager[Executor]]:
    """Makes an engine of two workers."""
    if request.param == "local":
        return lambda **given: Local(2, **given)
    address = request.getfixturevalue("two_nodes").address
    return lambda **given: Ray(address, **given)


@pytest.fixture(scope="session")
def node() -> Iterator[EvaluatorProcess]:
    """The JavaScript evaluator of frozen policies, in node."""
    with open_node() as process:
        yield process


@pytest.fixture(scope="session")
def plain_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvaluatorProcess]:
    """The Python evaluator of frozen policies, with the standard library only."""
    with open_plain_python(tmp_path_factory.mktemp("evaluator")) as process:
        yield process
