"""What the service answers when it can't do what it was asked: a status, a word for programs, a sentence for people."""

from __future__ import annotations

LONGEST = 2_000  # characters of a message


class Problem(Exception):
    """A request that is refused; nothing has changed.

    Parameters
    ----------
    status
        The HTTP status.
    code
        What is wrong, in a word that stays the same, for programs.
    message
        What is wrong and what to do, for people.
    retry_after
        Seconds after which the same request may succeed.
    """

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        if len(message) > LONGEST:  # it may quote what was sent
            message = f"{message[:LONGEST]}…"
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after


def invalid(message: str) -> Problem:
    """The request itself is wrong: a value out of range, a feature that is missing."""
    return Problem(422, "invalid", message)


def unavailable(message: str) -> Problem:
    """The service can't keep what it would have to acknowledge; it tries to recover by itself."""
    return Problem(503, "unavailable", message, retry_after=1)
