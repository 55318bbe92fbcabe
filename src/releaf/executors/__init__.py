"""One seam for work that can be done in parallel: on this machine's cores, or on a Ray cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

from releaf.executors.local import Local
from releaf.executors.ray import Ray
from releaf.executors.tasks import Executor, LostWorkerError

__all__ = ["Executor", "Local", "LostWorkerError", "Ray", "executor_for"]


@contextmanager
def executor_for(workers: int | None = None, ray: str | None = None) -> Iterator[Executor]:
    """The engine that is wanted, as long as the block lasts.

    Parameters
    ----------
    workers
        How many tasks at a time; one for each core, or each CPU of the cluster, when None.
    ray
        The address of a Ray cluster, as for :class:`Ray`; this machine's cores without Ray when None.
    """
    with Local(workers) if ray is None else Ray(ray, workers=workers) as executor:
        yield executor
