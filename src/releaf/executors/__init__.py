"""Parallel execution of tasks, on this machine's cores or on a Ray cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

from releaf.executors.local import Local
from releaf.executors.ray import Ray
from releaf.executors.tasks import Executor, LostWorkerError

__all__ = ["Executor", "Local", "LostWorkerError", "Ray", "executor_for"]


@contextmanager
def executor_for(workers: int | None = None, ray: str | None = None) -> Iterator[Executor]:
    """Context manager of a local or a Ray executor.

    Parameters
    ----------
    workers
        Number of parallel tasks; when None, one per core, or per CPU of the cluster.
    ray
        Address of a Ray cluster, as for :class:`Ray`; when None, this machine's cores without Ray.
    """
    with Local(workers) if ray is None else Ray(ray, workers=workers) as executor:
        yield executor
