"""Errors of the service: API errors with an HTTP status, and errors of the store."""

from __future__ import annotations

MAX_MESSAGE = 2_000  # characters


class ApiError(Exception):
    """A request that the service rejects; its state is unchanged.

    Parameters
    ----------
    status
        The HTTP status.
    code
        What is wrong, in a stable word, for programs.
    message
        What is wrong and what to do, for people.
    retry_after
        Seconds after which the same request may succeed.
    """

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        if len(message) > MAX_MESSAGE:  # it may quote the request
            message = f"{message[:MAX_MESSAGE]}…"
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after


class AlreadyRewarded(ApiError):
    """Status 409: a decision has another reward already, which is given in JSON."""

    def __init__(self, decision: int, reward: str) -> None:
        super().__init__(409, "already_rewarded", f"decision {decision} already has the reward {reward}")
        self.decision = decision

    def without_reward(self) -> ApiError:
        """The error for those who may not know the reward."""
        return ApiError(self.status, self.code, f"decision {self.decision} already has another reward")


class StoreError(Exception):
    """The store can't be written or read now: the disk is full, the server is unreachable.

    While the lease is still held (:meth:`EventStore.holds`), nothing of a failed commit was written. If it is not, the
    connection broke, perhaps just after the commit: acquire the lease again and read the log from the last known event.
    """


def invalid_request(message: str) -> ApiError:
    """Status 422: the request itself is wrong, such as a value out of range or a missing feature."""
    return ApiError(422, "invalid", message)


def service_unavailable(message: str) -> ApiError:
    """Status 503: the service can't make the request durable now; it recovers by itself."""
    return ApiError(503, "unavailable", message, retry_after=1)
