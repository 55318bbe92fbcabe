"""Results of a client: decisions, events of a feed, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Self

from releaf.frozen import FrozenPolicy, read_policy

Label = str | int


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of a service, or a default. Keep it, or its ``id``, until the reward is known.

    Attributes
    ----------
    id
        Its number in the experiment, from 1; identifies the decision of a reward. None for a default.
    action
        The chosen action.
    probability
        Propensity: the probability with which the policy took this action in this context; None if unknown.
    explored
        Whether the policy explored.
    wants_reward
        Whether the policy asks for the reward. The service rejects one that the policy did not ask for.
    deadline
        Deadline of the reward; None if there is none.
    estimates
        The estimated reward of each action; None while exploring.
    relevant
        The features on which the estimate of each action depends; None while exploring.
    eligible
        The actions that could be chosen; None where all could.
    slate
        The actions of a slate, the best first; None without ``k``.
    slate_probabilities
        The probability of each action of the slate to be among them.
    cost
        The cost of the action; None where costs do not matter.
    label_cost
        What its reward costs to find out, in ordinary labels; None unless the call said so.
    group
        "control" or "learner" in an experiment with a control group; None in others. ``probability`` is that of both
        groups together.
    receipt
        Needed with the reward, if the experiment has signed rewards; None otherwise. Clients send it with the decision.
    is_default
        Whether the action is the ``default`` of the call, because the service did not decide in time. Nobody waits for
        the reward of a default: it has no ``id``, no ``probability``, and ``wants_reward`` is False.
    context
        The context of a default, for your records; None for a decision of the service, which has recorded it.
    error
        Why the service did not decide; None if it did.
    """

    id: int | Any  # None for a default; Any spares programs without defaults a check that can't fail
    action: Label
    probability: float | None
    explored: bool
    wants_reward: bool
    deadline: datetime | None
    estimates: Mapping[str, float] | None
    relevant: Mapping[str, list[str] | None] | None
    receipt: str | None = field(default=None, repr=False)
    is_default: bool = False
    context: Mapping[str, Any] | Sequence[Any] | None = None
    error: ServiceError | None = None
    eligible: tuple[Label, ...] | None = None
    slate: tuple[Label, ...] | None = None
    slate_probabilities: tuple[float, ...] | None = None
    cost: float | None = None
    group: str | None = None
    label_cost: float | None = None

    @classmethod
    def of_default(cls, action: Label, context: Any, error: ServiceError) -> Self:
        """A default: the action that a program takes by itself."""
        return cls(
            id=None,
            action=action,
            probability=None,
            explored=False,
            wants_reward=False,
            deadline=None,
            estimates=None,
            relevant=None,
            is_default=True,
            context=context,
            error=error,
        )

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """From the JSON of an answer; unknown fields of later versions are ignored."""
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
            receipt=answer.get("receipt"),
            eligible=_tuple(answer.get("eligible")),
            slate=_tuple(answer.get("slate")),
            slate_probabilities=_tuple(answer.get("slate_probabilities")),
            cost=answer.get("cost"),
            group=answer.get("group"),
            label_cost=answer.get("label_cost"),
        )


def _tuple(values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


class Event(NamedTuple):
    """An event of an experiment.

    Attributes
    ----------
    kind
        "decision", "reward", "change" (of actions, shadows, or the policy in charge), or "reconnected": the connection
        was lost and restored, and events in between are missing.
    data
        A decision's record; or the ``decision``, ``reward`` and ``outcome`` of a reward.
    """

    kind: str
    data: dict[str, Any]


class PolicyVersion(NamedTuple):
    """A frozen policy of a service.

    Attributes
    ----------
    etag
        Its entity tag, for the next call.
    content
        The JSON, to pass on or to keep in a file.
    """

    etag: str
    content: bytes

    def load(self) -> FrozenPolicy:
        """A policy that decides here, without the service."""
        return read_policy(self.content)


class ServiceError(Exception):
    """The service rejected a request; its state is unchanged.

    Attributes
    ----------
    status
        The HTTP status; None without a response, and for one line of a stream.
    code
        What is wrong, in a stable word, for programs.
    message
        What is wrong and what to do, for people.
    retry_after
        Seconds after which to try again, if the service says so.
    """

    def __init__(self, status: int | None, code: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(status, code, message, retry_after)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after

    def __str__(self) -> str:
        status = "" if self.status is None else f", {self.status}"
        return f"{self.message} ({self.code}{status})"


class Conflict(ServiceError):
    """A conflict with the state: a name is taken, a decision has another reward, the experiment is retired."""


class Unavailable(ServiceError):
    """The service was unreachable or unavailable during all attempts, or did not answer in time.

    The outcome of the request is unknown: a decision or reward may have arrived. Only if the ``code`` is
    "circuit-open", the client has sent nothing.
    """
