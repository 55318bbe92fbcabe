"""What a service answers, as a client hands it on: decisions, events of a feed, errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self

Label = str | int


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of a service. Keep it, or its ``id``, until the reward is known.

    Attributes
    ----------
    id
        Its number, counted from 1 in each experiment; all that is needed to reward it.
    action
        What to do.
    probability
        The probability with which the policy took this action in this context; None where it isn't known.
    explored
        Whether the action was tried to learn about it.
    wants_reward
        Whether the policy asks for the reward. It accepts none that it did not ask for.
    deadline
        Until when the reward is accepted; None where it may come at any time.
    estimates
        The estimated reward of each action; None while exploring.
    relevant
        For each action the features its estimate rests on; None while exploring.
    """

    id: int
    action: Label
    probability: float | None
    explored: bool
    wants_reward: bool
    deadline: datetime | None
    estimates: Mapping[str, float] | None
    relevant: Mapping[str, list[str] | None] | None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """From the JSON of an answer; fields that later services add are left aside."""
        deadline = answer["deadline"]
        return cls(
            id=answer["decision"],
            action=answer["action"],
            probability=answer["probability"],
            explored=answer["explored"],
            wants_reward=answer["wants_reward"],
            deadline=None if deadline is None else datetime.fromisoformat(deadline),
            estimates=answer["estimates"],
            relevant=answer["relevant"],
        )


class Event(NamedTuple):
    """What happened in an experiment.

    Attributes
    ----------
    kind
        "decision", "reward", "change" (of actions, shadows, or who is in charge), or "reconnected": the connection
        was lost and is back, what happened meanwhile is missing here.
    data
        Of a decision all that the log has of it; of a reward its ``decision``, ``reward`` and ``outcome``.
    """

    kind: str
    data: dict[str, Any]


class ServiceError(Exception):
    """A service refused a request; nothing has changed.

    Attributes
    ----------
    status
        The HTTP status; None where no answer came, and for one line of a stream.
    code
        What is wrong, in a word that stays the same, for programs.
    message
        What is wrong and what to do, for people.
    retry_after
        Seconds after which the service asks to be tried again.
    """

    def __init__(self, status: int | None, code: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(status, code, message, retry_after)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after

    def __str__(self) -> str:
        status = "" if self.status is None else f", {self.status}"
        return f"{self.message} ({self.code}{status})"


class Conflict(ServiceError):
    """It contradicts what is there: the name is taken, another reward was given, the experiment is retired."""


class Unavailable(ServiceError):
    """No service could be reached, or it can't answer now, for as long as it was tried: go on without it for a while.

    A decision or a reward that was on its way may have arrived all the same.
    """
