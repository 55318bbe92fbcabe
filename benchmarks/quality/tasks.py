"""A run to do, and its result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A run to do; the digest tells what it depends on, beside the names."""

    data: str
    method: str
    seed: int
    steps: int
    digest: str

    @property
    def key(self) -> str:
        return f"{self.data} | {self.method} | {self.seed} | {self.digest}"


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Attributes
    ----------
    loss
        Share of lost reward, or regret for each step where expected rewards are known; None when it took too long.
    first_pass
        The same over the steps before any row comes again.
    labels
        Number of observed rewards.
    seconds
        Of computing, of all threads; imports and compilation came before.
    megabytes
        Peak of resident memory over that before the run.
    failure
        The error that ended it.
    """

    loss: float | None = None
    first_pass: float | None = None
    labels: int = 0
    seconds: float = 0.0
    megabytes: float = 0.0
    failure: str = ""
