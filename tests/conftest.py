"""A Ray cluster of two nodes, for all tests that need one.

Those are of one xdist group, "ray": with ``--dist loadgroup`` one worker runs them with one cluster, otherwise each
worker starts its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from releaf.executors import Executor, Local, Ray

SMALL = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
# Loopback addresses only, for Ray in this process and in all that tests start: it heeds this when it is imported, and a
# program that does otherwise would look for the cluster at another address than it listens at.
os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


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
