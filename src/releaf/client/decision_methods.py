"""Methods of both clients that decide and reward."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from collections.abc import Iterator as Iterator  # in the annotations that help shows
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar
from uuid import uuid4

import httpx

from releaf.client.base_client import BaseClient, positive_seconds
from releaf.client.call import ApiCall
from releaf.client.call_sequences import send_lines
from releaf.client.method_descriptors import CallMethod, StreamMethod
from releaf.client.request_encoding import (
    decision_number,
    encode_actions,
    encode_baseline,
    encode_context,
    encode_cost,
    encode_eligible,
    encode_eligible_of_many,
    encode_json,
    experiment_path,
)
from releaf.client.response_decoding import (
    decode_decision,
    decode_decisions,
    decode_json,
    decode_statuses,
    field_reader,
)
from releaf.client.responses import Decision, Label, ServiceError

Context = Mapping[str, Any] | Sequence[Any]
Cost = Mapping[Label, float] | Mapping[str, float] | Sequence[float]
Reward = float | Sequence[float] | Mapping[str, float]
RewardOfDecision = tuple[Decision | int, Reward] | tuple[Decision | int, Reward, str | None]
Info = dict[str, Any]
T = TypeVar("T")


class DecisionMethods(BaseClient):
    """Methods of `Client` and `AsyncClient` that decide and reward."""

    @CallMethod
    def decide(
        self,
        experiment: str,
        context: Context,
        *,
        eligible: Sequence[Label] | None = None,
        actions: Mapping[str, Context | None] | None = None,
        k: int | None = None,
        cost: Cost | None = None,
        label_cost: float | None = None,
        baseline: Label | tuple[Label, float] | None = None,
        key: str | None = None,
        subject: str | None = None,
        timeout: float | None = None,
        default: Label | None = None,
    ) -> ApiCall[Decision]:
        """Decide on one context.

        Parameters
        ----------
        experiment
            Its name.
        context
            A mapping from features to values, or the values in order. None and NaN are missing values.
        eligible
            The actions that may be chosen this time; None for all of them.
        actions
            The actions to choose from, with the features of each, or None to keep those that the service has. For
            experiments with ``action_features``.
        k
            The number of actions of a slate: ``decision.slate``. For policies that know features of actions.
        cost
            What each action costs this time, by name or in the order of the actions; None for the fixed costs. For
            policies with a ``cost_weight`` or a ``spend_budget``.
        label_cost
            What the reward of this decision costs to find out, in ordinary labels; None for an ordinary one. For
            policies with a ``label_budget`` or an ``observation_cost``.
        baseline
            Where the learner is an apprentice: the action that the application takes by itself; with its probability,
            unless that is 1.
        key
            Idempotency key: the same key gives the same decision again. By default each call draws one and uses it for
            all its attempts, so that a retry never decides twice. Pass your own, such as an order number, if your
            program may repeat the call.
        subject
            Whom the decision is about, such as a customer's number: ``erase_subject`` erases their decisions. The
            service keeps a keyed hash of it only.
        timeout
            Seconds for the whole call, with all attempts and the pauses between them; by default the client's
            ``decide_timeout``, 0.9.
        default
            The action to return if the service can't decide in time: it is unreachable, too slow, rate-limited (429),
            fails (500 or more), or the circuit is open. The decision then has ``is_default``. The client reports it in
            the background, so that the service drops a decision whose answer only was late. Invalid requests raise a
            :class:`ServiceError` all the same.
        """
        plain, allowed = encode_context(context), encode_eligible(eligible)
        _require_eligible(default, allowed)
        many = _many(actions, k) | _about("cost", encode_cost(cost)) | _about("label_cost", label_cost)
        many |= _about("baseline", encode_baseline(baseline))
        own = key or uuid4().hex
        return _post(
            experiment_path(experiment, "decide"),
            {"context": plain, "key": own, **_given(allowed), **many, **_about("subject", subject)},
            decode_decision,
            self.decide_timeout if timeout is None else timeout,
            None if default is None else lambda error: Decision.of_default(default, plain, error),
            (experiment_path(experiment, "discard"), (own,)),
        )

    @CallMethod
    def decide_many(
        self,
        experiment: str,
        contexts: Iterable[Context],
        *,
        eligible: Sequence[Label] | Sequence[Sequence[Label] | None] | None = None,
        cost: Cost | None = None,
        costs: Iterable[Cost] | None = None,
        label_cost: float | None = None,
        label_costs: Iterable[float] | None = None,
        baselines: Iterable[Label | tuple[Label, float]] | None = None,
        keys: Sequence[str] | None = None,
        subjects: Sequence[str | None] | None = None,
        timeout: float | None = None,
        default: Label | Sequence[Label] | None = None,
    ) -> ApiCall[list[Decision]]:
        """Decide on several contexts in one request: on all of them, or on none if one is invalid.

        Parameters
        ----------
        experiment
            Its name.
        contexts
            As for :meth:`decide`.
        eligible
            The actions that may be chosen: names for all contexts, or a sequence of names for each (None: all actions).
        cost, costs
            What each action costs in all contexts, as for :meth:`decide`; or such costs for each context.
        label_cost, label_costs
            What each reward costs to find out, as for :meth:`decide`; or such a cost for each context.
        baselines
            As for :meth:`decide`, one for each context.
        keys
            Idempotency keys, one for each context.
        subjects
            Subjects as for :meth:`decide`, one for each context, or None.
        timeout
            Seconds for the whole call, with all attempts; by default, the client's ``timeout`` for each attempt and its
            ``retry_for``.
        default
            The action of all decisions, or one for each context, if the service can't decide in time.
        """
        plain = [encode_context(context) for context in contexts]
        _require_one_each("keys", keys, plain)
        _require_one_each("subjects", subjects, plain)
        own = list(keys) if keys is not None else [uuid4().hex for _ in plain]
        each = None if costs is None else [encode_cost(one) for one in costs]
        _require_one_each("costs", each, plain)
        watched = None if baselines is None else [encode_baseline(one) for one in baselines]
        _require_one_each("baselines", watched, plain)
        labels = None if label_costs is None else list(label_costs)
        _require_one_each("label_costs", labels, plain)
        people = _about("subjects", None if subjects is None else list(subjects))
        priced = {**_about("cost", encode_cost(cost)), **_about("costs", each), **_about("baselines", watched)}
        priced |= {**_about("label_cost", label_cost), **_about("label_costs", labels)}
        return _post(
            experiment_path(experiment, "decide"),
            {"contexts": plain, "keys": own, **_given(encode_eligible_of_many(eligible)), **priced, **people},
            decode_decisions,
            timeout,
            _defaults(default, plain),
            (experiment_path(experiment, "discard"), tuple(own)),
        )

    @StreamMethod
    def decide_stream(
        self,
        experiment: str,
        contexts: Iterable[Context] | AsyncIterable[Context],
        *,
        eligible: Sequence[Label] | None = None,
        cost: Cost | None = None,
        label_cost: float | None = None,
        chunk: int = 1_000,
        timeout: float | None = None,
    ) -> AsyncIterator[Decision | ServiceError]:
        """Decide on any number of contexts, in chunks; yields a decision or an error for each, in order.

        The iterator sends requests when it is consumed: ``for answer in client.decide_stream(…)``.

        Parameters
        ----------
        experiment
            Its name.
        contexts
            Any iterable, such as a generator over the rows of a file; only one chunk is in memory at a time. An
            :class:`AsyncClient` accepts asynchronous iterables too.
        eligible
            The actions that may be chosen for all of them; None for all actions.
        cost
            What each action costs in all of them, as for :meth:`decide`.
        label_cost
            What each reward costs to find out, as for :meth:`decide`.
        chunk
            Contexts per request. Use a small chunk for a slow source, because a chunk is sent when it is full.
        timeout
            Seconds for each request, with all attempts; by default, the client's ``timeout`` for each attempt and its
            ``retry_for``.
        """
        path = experiment_path(experiment, "decide")
        positive_seconds("timeout", timeout)
        further = {**_given(encode_eligible(eligible)), **_about("cost", encode_cost(cost))}
        line = partial(_context_line, further | _about("label_cost", label_cost))
        return send_lines(self, path, contexts, chunk, line, Decision.of, timeout)

    @CallMethod
    def reward(
        self,
        experiment: str,
        decision: Decision | int,
        reward: Reward,
        *,
        receipt: str | None = None,
        timeout: float | None = None,
    ) -> ApiCall[str]:
        """Send the reward of a decision; returns "learnt", or "repeated" if the decision already had this reward.

        Parameters
        ----------
        experiment
            Its name.
        decision
            The decision, or its ``id``.
        reward
            A number; or one for each action, if the policy learns from all. Of a slate, a mapping from its actions to
            the rewards that were observed, or the number of its first action.
        receipt
            The decision's ``receipt``, if ``decision`` is a number and the experiment has signed rewards.
        timeout
            Seconds for the whole call, with all attempts; by default, the client's ``timeout`` for each attempt and its
            ``retry_for``.
        """
        path = experiment_path(experiment, "reward")
        return _post(path, _reward_of(decision, reward, receipt), field_reader("status"), timeout)

    @CallMethod
    def reward_many(
        self, experiment: str, rewards: Iterable[RewardOfDecision], *, timeout: float | None = None
    ) -> ApiCall[list[str]]:
        """Send rewards of several decisions in one request: all of them are learnt, or none if one is invalid.

        Each is a decision or its ``id``, the reward, and, with an ``id`` and signed rewards, the ``receipt``.
        ``timeout`` is that of :meth:`reward`.
        """
        body = {"rewards": [_reward_of(*one) for one in rewards]}
        return _post(experiment_path(experiment, "reward"), body, decode_statuses, timeout)

    @CallMethod
    def observe(
        self,
        experiment: str,
        context: Context,
        action: Label,
        reward: float,
        *,
        probability: float | None = None,
        key: str | None = None,
        subject: str | None = None,
        timeout: float | None = None,
    ) -> ApiCall[str]:
        """Send the reward of a decision that the application made by itself, such as a default; returns "learnt".

        It counts as a decision. For policies that ask for every reward. The scopes ``decide`` and ``reward`` are
        needed.

        Parameters
        ----------
        experiment
            Its name.
        context
            As for :meth:`decide`; that of a default is its ``context``.
        action
            The action that was taken.
        reward
            Its reward.
        probability
            With which the application took the action; None if it is unknown, and the decision then tells nothing
            about shadows.
        key
            Idempotency key, of which a repeated call is "repeated". By default each call draws one. That of a call to
            ``decide`` is another.
        subject, timeout
            As for :meth:`decide` and :meth:`reward`.
        """
        body = {"context": encode_context(context), "action": action, "reward": reward, "key": key or uuid4().hex}
        body |= _about("probability", probability) | _about("subject", subject)
        return _post(experiment_path(experiment, "observe"), body, field_reader("status"), timeout)

    @StreamMethod
    def reward_stream(
        self,
        experiment: str,
        rewards: Iterable[RewardOfDecision] | AsyncIterable[RewardOfDecision],
        *,
        chunk: int = 1_000,
        timeout: float | None = None,
    ) -> AsyncIterator[str | ServiceError]:
        """Send any number of rewards, in chunks; yields "learnt", "repeated" or an error for each, in order.

        The iterator sends requests when it is consumed: ``for result in client.reward_stream(…)``. ``rewards`` are
        those of :meth:`reward_many`, ``chunk`` and ``timeout`` those of :meth:`decide_stream`.
        """
        path = experiment_path(experiment, "reward")
        positive_seconds("timeout", timeout)
        return send_lines(self, path, rewards, chunk, _reward_line, itemgetter("status"), timeout)

    @CallMethod
    def preview(
        self,
        experiment: str,
        context: Context,
        *,
        eligible: Sequence[Label] | None = None,
        actions: Mapping[str, Context | None] | None = None,
        k: int | None = None,
        cost: Cost | None = None,
        label_cost: float | None = None,
        timeout: float | None = None,
    ) -> ApiCall[Info]:
        """Preview a decision and its explanation, without effect.

        ``eligible``, ``actions``, ``k``, ``cost`` and ``label_cost`` are those of :meth:`decide`, ``timeout`` that of
        :meth:`reward`.
        """
        own = {**_given(encode_eligible(eligible)), **_many(actions, k), **_about("cost", encode_cost(cost))}
        own |= _about("label_cost", label_cost)
        body = {"context": encode_context(context), **own}
        return _post(experiment_path(experiment, "preview"), body, decode_json, timeout)


def _post(
    path: str,
    body: Any,
    read: Callable[[httpx.Response], T],
    timeout: float | None,
    fallback: Callable[[ServiceError], T] | None = None,
    discards: tuple[str, tuple[str, ...]] | None = None,
) -> ApiCall[T]:
    return ApiCall(
        method="POST",
        path=path,
        read=read,
        body=encode_json(body),
        timeout=positive_seconds("timeout", timeout),
        fallback=fallback,
        discards=discards,
    )


def _about(field: str, subject: Any) -> Info:
    """The field for a subject, a cost and the like; none without one, for services of earlier versions."""
    return {} if subject is None else {field: subject}


def _many(actions: Mapping[str, Context | None] | None, k: int | None) -> Info:
    """The fields of actions with their features, and of the size of a slate."""
    return _about("actions", None if actions is None else encode_actions(actions)) | _about("k", k)


def _given(eligible: list[Any] | None) -> Info:
    """The field of a request, left out without eligible actions, so that earlier services take it."""
    return {} if eligible is None else {"eligible": eligible}


def _require_eligible(default: Label | None, eligible: list[Any] | None) -> None:
    if default is not None and eligible is not None and default not in eligible:
        raise ValueError(f"default is {default!r}, which is not eligible: expected one of {eligible!r}")


def _require_one_each(name: str, given: Sequence[Any] | None, contexts: Sequence[Any]) -> None:
    if given is not None and len(given) != len(contexts):
        raise ValueError(
            f"{name} has {len(given)} entries, contexts has {len(contexts)}: expected one {name.removesuffix('s')} for "
            "each context"
        )


def _defaults(
    default: Label | Sequence[Label] | None, contexts: list[Any]
) -> Callable[[ServiceError], list[Decision]] | None:
    """The fallback of `decide_many`."""
    if default is None:
        return None
    is_one = isinstance(default, str) or not isinstance(default, Iterable)
    actions: list[Any] = [default] * len(contexts) if is_one else list(default)  # type: ignore[arg-type]
    _require_one_each("default", actions, contexts)
    return lambda error: [
        Decision.of_default(action, context, error) for action, context in zip(actions, contexts, strict=True)
    ]


def _reward_of(decision: Decision | int, reward: Reward, receipt: str | None = None) -> Info:
    if receipt is None and isinstance(decision, Decision):
        receipt = decision.receipt
    body: Info = {"decision": decision_number(decision), "reward": reward}
    return body if receipt is None else {**body, "receipt": receipt}


def _reward_line(one: RewardOfDecision) -> bytes:
    return encode_json(_reward_of(*one))


def _context_line(further: Info, context: Context) -> bytes:
    return encode_json({"context": encode_context(context), "key": uuid4().hex, **further})
