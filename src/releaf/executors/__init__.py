"""One seam for work that can be done in parallel: on this machine's cores."""

from releaf.executors.local import Executor, Local

__all__ = ["Executor", "Local"]
