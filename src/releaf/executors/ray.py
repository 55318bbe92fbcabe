"""A Ray cluster, or one that is started on this machine. Ray itself is imported only when there is something to do."""

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

from releaf.executors.connection import checked_address, connect, disconnect
from releaf.executors.tasks import Attempts, Raised, Result, Task, attempted, checked_retries, checked_workers, noted

logger = logging.getLogger("releaf.executors")
PER_CPU = 4  # tasks in flight: enough that no CPU waits for the next, and that a cluster which can grow does
LOOK_AGAIN = 5.0  # seconds after which the cluster may have grown
SAY_SO = 60.0  # seconds without a sign of work after which someone is told
WHY = "Was its node lost, or out of memory? `ray status` and the logs of the node tell more."
SAME = "install the same version on all nodes"
NODE_GROUP = "ray.io/node-group"  # the label of nodes that Ray has started by itself, and may start more of
NOT_IMPORTED = "failed to import on the worker"  # in what Ray says when a node can't read what it is sent


class Ray:
    """The CPUs of a Ray cluster, one for each task.

    Every node needs the very same releaf as this machine, and must reach data that is given by a path. Tasks run in
    this program's working directory where a node has it.

    A worker or a node that is lost costs only its tasks, which are done again. An interrupt cancels what is in flight.
    A cluster is left as it was found; one that was started here ends with :meth:`close`, or with the program.

    Parameters
    ----------
    address
        "auto" finds the cluster that this machine belongs to, or the one that the environment's RAY_ADDRESS names; a
        host:port names one; "local" starts one on this machine, which nobody else can reach. A program that is
        connected to Ray already stays so.
    workers
        How many tasks may run at a time; as many as there are CPUs when None.
    retries
        How often a task is tried again when its worker or node was lost. What the function raises is never tried again.
    memory
        How many bytes a task needs, so that no node gets more tasks than it has memory for. Refused where no node has
        so much, unless the cluster can grow.
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
        self.address = checked_address(address)
        self.workers = checked_workers(workers)
        self.retries = checked_retries(retries)
        self.memory = memory
        self.runtime_env = runtime_env
        self._connected = False

    def __enter__(self) -> Ray:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; end it where it was started here."""
        if self._connected:
            disconnect()
        self._connected = False

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """The place of each task and its result, in the order in which they are done."""
        if not tasks:
            return
        self._connected = connect(self.address, self.workers, self.runtime_env) or self._connected
        import ray

        _check_memory(self.memory)
        # Ray's own retries are without bound for want of memory, so that tasks are counted here
        do = ray.remote(num_cpus=1, max_retries=0, memory=self.memory)(_do)
        work, folder = ray.put(function), None if "working_dir" in (self.runtime_env or {}) else str(Path.cwd())
        attempts, waiting, flying = Attempts(self.retries), deque(range(len(tasks))), dict[Any, int]()
        room, failures = _Room(self.workers), list[BaseException]()
        try:
            while waiting or flying:
                while waiting and len(flying) < room.size():
                    place = waiting.popleft()
                    flying[do.remote(work, tasks[place], folder, _sources())] = place
                for reference in _ended(list(flying)):
                    place = flying.pop(reference)
                    result, error = _outcome(reference, place, tasks[place])
                    if error is None:
                        yield place, result
                    elif not isinstance(error, _lost()):
                        failures.append(error)
                    elif (
                        lost := attempts.lost(place, tasks[place], f"{WHY} Ray says: {_first_line(error)}")
                    ) is not None:
                        failures.append(lost)
                    else:
                        waiting.appendleft(place)
                if failures:
                    raise failures[0]
        finally:
            for reference in flying:
                with suppress(Exception):  # nothing that goes wrong here may hide why it ends
                    ray.cancel(reference, force=True)


class _Room:
    """How many tasks may be in flight, so that hundreds of thousands don't pile up in the cluster."""

    def __init__(self, workers: int | None) -> None:
        self._size = workers or 0
        self._looked = float("inf") if workers else float("-inf")

    def size(self) -> int:
        import ray

        if time.monotonic() > self._looked + LOOK_AGAIN:
            self._size = PER_CPU * max(int(ray.cluster_resources().get("CPU", 0)), 1)
            self._looked = time.monotonic()
        return self._size


def _check_memory(wanted: int | None) -> None:
    """Raise where no node will ever have the memory of a task, which Ray would wait for without a word."""
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"]]
    largest = max((int(node["Resources"].get("memory", 0)) for node in nodes), default=0)
    grows = any(NODE_GROUP in node.get("Labels", {}) for node in nodes)
    if wanted is not None and wanted > largest and not grows:
        raise ValueError(f"memory is {wanted:,} bytes: expected at most {largest:,}, which the largest node has")


def _ended(flying: list[Any]) -> list[Any]:
    """Those that have ended, as soon as one has."""
    import ray

    while not ray.wait(flying, num_returns=1, timeout=SAY_SO)[0]:
        if ray.available_resources().get("CPU", 0) == ray.cluster_resources().get("CPU", 0):
            logger.warning(
                "tasks wait, and no node of the Ray cluster has begun one: `ray status` tells what they need"
            )
    ready: list[Any] = ray.wait(flying, num_returns=len(flying), timeout=0)[0]
    return ready


def _outcome(reference: Any, place: int, task: Any) -> tuple[Any, BaseException | None]:
    """What a task gave; or what it raised, as it was raised, or Ray says of its worker."""
    import ray

    try:
        result, raised = ray.get(reference)
    except _lost() as error:
        return None, error
    except ray.exceptions.RayTaskError as error:
        if NOT_IMPORTED not in str(error):
            return None, noted(error.cause if isinstance(error.cause, BaseException) else error, place, task)
        refused = ImportError(f"a node has no releaf, or not all of it ({_last_line(error)}): {SAME}")
        refused.__cause__ = error
        return None, refused
    return result, None if raised is None else noted(raised.told(), place, task)


def _lost() -> tuple[type[Exception], ...]:
    """What Ray says when a worker, a node, or a result on a node is gone."""
    from ray import exceptions

    gone = (exceptions.WorkerCrashedError, exceptions.NodeDiedError, exceptions.ObjectLostError)
    return (*gone, exceptions.OutOfMemoryError)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _last_line(error: BaseException) -> str:
    return str(error).strip().rpartition("\n")[2]


def _do(function: Callable[[Any], Any], task: Any, folder: str | None, sources: str) -> tuple[Any, Raised | None]:
    """One task, on a worker."""
    from ray import cloudpickle

    if _sources() != sources:
        raise ImportError(f"node {platform.node()} has another releaf than the program that sent the task: {SAME}")
    if folder is not None and Path.cwd() != Path(folder):
        with suppress(OSError):
            os.chdir(folder)
    return attempted(function, task, cloudpickle)


@cache
def _sources() -> str:
    """A digest of this package: results of another would be kept as if they were of this one."""
    package = Path(__file__).parents[1]
    content = b"".join(path.read_bytes() for path in sorted(package.rglob("*.py")))
    return hashlib.sha256(content).hexdigest()[:16]
