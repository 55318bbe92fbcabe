"""Pending decisions: those that wait for their reward."""

from __future__ import annotations

from functools import cache
from itertools import islice

from releaf.service.errors import ApiError
from releaf.service.experiments.memory import usable_memory
from releaf.service.log.events import ExperimentAction, Reward
from releaf.service.messages import PolicySpec

# Action, propensity, deadline, choices of the shadows. A plain tuple, because every decision makes one.
PendingDecision = tuple[ExperimentAction, float | None, float | None, dict[str, ExperimentAction] | None]
MAX_EXPIRED_AT_ONCE = 1000
BYTES_EACH = 700  # of a pending decision of ten features, with what its learner keeps
MEMORY_SHARE = 1 / 8  # of memory for the pending decisions of an experiment: a snapshot takes three times as much
LEAST_LIMIT = 1_000_000


@cache
def default_limit() -> int:
    """Number of decisions that may be pending in an experiment without ``max_pending``."""
    return max(LEAST_LIMIT, int(MEMORY_SHARE * usable_memory() / BYTES_EACH))


def pending_limit(policy: PolicySpec) -> int:
    """Number of decisions that may be pending while a policy is in charge."""
    given = policy.parameters.get("max_pending")
    return given if isinstance(given, int) else default_limit()


class DeferredDecisions(dict[int, Reward | None]):
    """Pending decisions that were not activated yet, with the reward that has come for each."""


class NotPending(Exception):
    """A reward for a decision that is not pending; the log tells why."""


class PendingDecisions(dict[int, PendingDecision]):
    """Pending decisions by number, the oldest first."""

    def overdue(self, now: float) -> list[int]:
        """Numbers of the oldest decisions whose deadline has passed, at most MAX_EXPIRED_AT_ONCE."""
        numbers = []
        for number, (_, _, deadline, _) in islice(self.items(), MAX_EXPIRED_AT_ONCE):
            if deadline is None or deadline > now:
                break
            numbers.append(number)
        return numbers

    def require_capacity_for(self, decisions: int, policy: PolicySpec) -> None:
        """Refuse decisions whose rewards could not be waited for, rather than forget earlier ones."""
        limit = pending_limit(policy)
        if len(self) + decisions > limit:
            raise ApiError(
                503,
                "pending_limit",
                f"{len(self):,} decisions wait for their rewards, and {limit:,} may: send their rewards. Or let a "
                "policy with a larger max_pending take charge, as a shadow first; or create the experiment with a "
                "deadline (rewards.within_seconds)",
                retry_after=1,
            )

    def with_action(self, action: ExperimentAction) -> list[int]:
        """Numbers of the decisions that took an action."""
        return [number for number, pending in self.items() if pending[0] == action]
