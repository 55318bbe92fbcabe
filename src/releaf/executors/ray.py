"""`Ray`: an executor on a Ray cluster. Ray itself is imported with the first tasks."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from releaf.executors.ray_connection import check_address, connect, disconnect
from releaf.executors.tasks import (
    RemoteError,
    Result,
    RetryCounter,
    Task,
    add_task_note,
    check_retries,
    check_workers,
    run_task,
)

logger = logging.getLogger("releaf.executors")
TASKS_PER_CPU = 4  # tasks in flight: enough to keep all CPUs busy, and to make an autoscaling cluster grow
CLUSTER_POLL_SECONDS = 5.0  # interval at which the size of the cluster is read
IDLE_WARNING_SECONDS = 60.0  # seconds without progress before a warning
LOST_NODE_HINT = "Was its node lost, or out of memory? See `ray status` and the logs of the node."
SAME_VERSION_HINT = "install the same version on all nodes"
NODE_GROUP = "ray.io/node-group"  # label of autoscaled nodes
NOT_IMPORTED = "failed to import on the worker"  # part of Ray's message if a node can't unpickle a task


class Ray:
    """An executor on a Ray cluster; each task takes one CPU.

    Every node needs the same version of releaf as this machine, and access to data that is given by a path. Tasks run
    in this program's working directory if the node has it.

    Tasks of a lost worker or node are retried. An interrupt cancels tasks in flight. An existing cluster keeps running;
    one that was started here ends with :meth:`close`, or with the program.

    Parameters
    ----------
    address
        "auto" finds the cluster of this machine, or the one in the environment variable RAY_ADDRESS; host:port names
        one; "local" starts one on this machine, on loopback addresses. A program that is connected to Ray already
        keeps its connection.
    workers
        Maximum number of parallel tasks; the number of CPUs when None.
    retries
        How often a task is retried after its worker or node was lost. A task that raises is never retried.
    memory
        Bytes of memory per task, which limit the tasks on a node. More than the largest node has raises, unless the
        cluster can grow.
    runtime_env
        What Ray sets up on the nodes beforehand. For development: {"py_modules": [releaf]} sends this machine's
        releaf to nodes that have all that it needs.
    """

    def __init__(
        self,
        address: str = "auto",
        *,
        workers: int | None = None,
        retries: int = 3,
        memory: int | None = None,
        runtime_env: dict[str, Any] | None = None,
    ) -> None:
        if find_spec("ray") is None:
            raise ImportError('Ray is not installed: pip install "releaf[ray]"')
        if memory is not None and memory < 1:
            raise ValueError(f"memory must be a number of bytes, got memory={memory}")
        self.address = check_address(address)
        self.workers = check_workers(workers)
        self.retries = check_retries(retries)
        self.memory = memory
        self.runtime_env = runtime_env
        self._connected = False

    def __enter__(self) -> Ray:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect from the cluster; shut it down if it was started here."""
        if self._connected:
            disconnect()
        self._connected = False

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield each task's index and result, in order of completion."""
        if not tasks:
            return
        self._connected = connect(self.address, self.workers, self.runtime_env) or self._connected
        import ray

        _check_memory(self.memory)
        # Ray retries without bound if memory runs out, so retries are counted here
        do = ray.remote(num_cpus=1, max_retries=0, memory=self.memory)(_run_on_node)
        work, folder = ray.put(function), None if "working_dir" in (self.runtime_env or {}) else str(Path.cwd())
        retries, waiting, in_flight = RetryCounter(self.retries), deque(range(len(tasks))), dict[Any, int]()
        limit, failures = _InFlightLimit(self.workers), list[BaseException]()
        try:
            while waiting or in_flight:
                while waiting and len(in_flight) < limit.value():
                    index = waiting.popleft()
                    in_flight[do.remote(work, tasks[index], folder, _sources())] = index
                for reference in _wait_for_any(list(in_flight)):
                    index = in_flight.pop(reference)
                    result, error = _outcome(reference, index, tasks[index])
                    if error is None:
                        yield index, result
                    elif not isinstance(error, _lost_worker_errors()):
                        failures.append(error)
                    elif (
                        lost := retries.lost(index, tasks[index], f"{LOST_NODE_HINT} Ray says: {_first_line(error)}")
                    ) is not None:
                        failures.append(lost)
                    else:
                        waiting.appendleft(index)
                if failures:
                    raise failures[0]
        finally:
            for reference in in_flight:
                with suppress(Exception):  # a failure here must not hide the original error
                    ray.cancel(reference, force=True)


class _InFlightLimit:
    """Maximum number of tasks in flight, so that they don't pile up in the cluster."""

    def __init__(self, workers: int | None) -> None:
        self._value = workers or 0
        self._checked = float("inf") if workers else float("-inf")

    def value(self) -> int:
        import ray

        if time.monotonic() > self._checked + CLUSTER_POLL_SECONDS:
            self._value = TASKS_PER_CPU * max(int(ray.cluster_resources().get("CPU", 0)), 1)
            self._checked = time.monotonic()
        return self._value


def _check_memory(wanted: int | None) -> None:
    """Raise if no node has enough memory for a task; Ray would wait silently."""
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"]]
    largest = max((int(node["Resources"].get("memory", 0)) for node in nodes), default=0)
    grows = any(NODE_GROUP in node.get("Labels", {}) for node in nodes)
    if wanted is not None and wanted > largest and not grows:
        raise ValueError(f"memory is {wanted:,} bytes: expected at most {largest:,}, which the largest node has")


def _wait_for_any(in_flight: list[Any]) -> list[Any]:
    """Wait until a task has completed; returns all that have."""
    import ray

    while not ray.wait(in_flight, num_returns=1, timeout=IDLE_WARNING_SECONDS)[0]:
        if ray.available_resources().get("CPU", 0) == ray.cluster_resources().get("CPU", 0):
            logger.warning("no node of the Ray cluster has started any of the pending tasks: see `ray status`")
    ready: list[Any] = ray.wait(in_flight, num_returns=len(in_flight), timeout=0)[0]
    return ready


def _outcome(reference: Any, index: int, task: Any) -> tuple[Any, BaseException | None]:
    """Result of a task, or its exception, or Ray's error about its worker."""
    import ray

    try:
        result, raised = ray.get(reference)
    except _lost_worker_errors() as error:
        return None, error
    except ray.exceptions.RayTaskError as error:
        if NOT_IMPORTED not in str(error):
            return None, add_task_note(error.cause if isinstance(error.cause, BaseException) else error, index, task)
        refused = ImportError(f"a node has no releaf, or not all of it ({_last_line(error)}): {SAME_VERSION_HINT}")
        refused.__cause__ = error
        return None, refused
    return result, None if raised is None else add_task_note(raised.restore(), index, task)


def _lost_worker_errors() -> tuple[type[Exception], ...]:
    """Ray's exceptions for a lost worker, node or result."""
    from ray import exceptions

    gone = (exceptions.WorkerCrashedError, exceptions.NodeDiedError, exceptions.ObjectLostError)
    return (*gone, exceptions.OutOfMemoryError)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _last_line(error: BaseException) -> str:
    return str(error).strip().rpartition("\n")[2]


def _run_on_node(
    function: Callable[[Any], Any], task: Any, folder: str | None, sources: str
) -> tuple[Any, RemoteError | None]:
    from ray import cloudpickle

    if _sources() != sources:
        raise ImportError(
            f"node {platform.node()} has another releaf than the program that sent the task: {SAME_VERSION_HINT}"
        )
    if folder is not None and Path.cwd() != Path(folder):
        with suppress(OSError):
            os.chdir(folder)
    return run_task(function, task, cloudpickle)


@cache
def _sources() -> str:
    """Digest of this package's source, to detect nodes with another version."""
    package = Path(__file__).parents[1]
    content = b"".join(path.read_bytes() for path in sorted(package.rglob("*.py")))
    return hashlib.sha256(content).hexdigest()[:16]
