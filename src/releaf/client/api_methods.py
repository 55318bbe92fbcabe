"""Methods of both clients: one for each operation of the API."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from collections.abc import Iterator as Iterator  # in the annotations that help shows
from contextlib import suppress
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import httpx

from releaf.client.base_client import BaseClient
from releaf.client.call import ApiCall, get
from releaf.client.call_sequences import send_lines, send_pages
from releaf.client.event_stream import EventStreamParser
from releaf.client.exported_files import export_format, export_taker
from releaf.client.method_descriptors import CallMethod, StreamMethod
from releaf.client.request_encoding import (
    decision_number,
    encode_context,
    encode_features,
    encode_json,
    encode_model,
    experiment_path,
    policy_spec,
)
from releaf.client.response_decoding import (
    decode_decision,
    decode_decisions,
    decode_json,
    decode_statuses,
    field_reader,
)
from releaf.client.responses import Decision, Event, Label, ServiceError
from releaf.client.transports import each, settle

Context = Mapping[str, Any] | Sequence[Any]
Reward = float | Sequence[float] | Mapping[str, float]
Info = dict[str, Any]
T = TypeVar("T")
CHANGE_TIMEOUT = 180.0  # seconds: the service compiles a policy that it runs for the first time
FEED_TIMEOUT = 45.0  # seconds without data: the service sends a keep-alive every 15
EXPORT_TIMEOUT = 60.0  # seconds without data, while the service reads a long log
RECONNECT_PAUSE = 0.5  # seconds


def post(path: str, body: Any, read: Callable[[httpx.Response], T]) -> ApiCall[T]:
    return ApiCall(method="POST", path=path, read=read, body=encode_json(body))


def change(method: str, path: str, body: Any = None) -> ApiCall[Info]:
    """A change of an experiment; sent again only if it can't have arrived."""
    content = None if body is None else encode_json(body)
    return ApiCall(
        method=method, path=path, read=decode_json, body=content, retry="unsent", read_timeout=CHANGE_TIMEOUT
    )


class ApiMethods(BaseClient):
    """Methods of `Client` and `AsyncClient`."""

    # --- decisions and rewards

    @CallMethod
    def decide(self, experiment: str, context: Context, *, key: str | None = None) -> ApiCall[Decision]:
        """Decide on one context.

        Parameters
        ----------
        experiment
            Its name.
        context
            A mapping from features to values, or the values in order. None and NaN are missing values.
        key
            Idempotency key: the same key gives the same decision again. By default each call draws one and uses it for
            all its attempts, so that a retry never decides twice. Pass your own, such as an order number, if your
            program may repeat the call.
        """
        body = {"context": encode_context(context), "key": key or uuid4().hex}
        return post(experiment_path(experiment, "decide"), body, decode_decision)

    @CallMethod
    def decide_many(
        self, experiment: str, contexts: Iterable[Context], *, keys: Sequence[str] | None = None
    ) -> ApiCall[list[Decision]]:
        """Decide on several contexts in one request: on all of them, or on none if one is invalid."""
        plain = [encode_context(context) for context in contexts]
        if keys is not None and len(keys) != len(plain):
            raise ValueError(
                f"keys has {len(keys)} entries, contexts has {len(plain)}: expected one key for each context"
            )
        body = {"contexts": plain, "keys": list(keys) if keys is not None else [uuid4().hex for _ in plain]}
        return post(experiment_path(experiment, "decide"), body, decode_decisions)

    @StreamMethod
    def decide_stream(
        self, experiment: str, contexts: Iterable[Context] | AsyncIterable[Context], *, chunk: int = 1_000
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
        chunk
            Contexts per request. Use a small chunk for a slow source, because a chunk is sent when it is full.
        """
        return send_lines(self, experiment_path(experiment, "decide"), contexts, chunk, _context_line, Decision.of)

    @CallMethod
    def reward(self, experiment: str, decision: Decision | int, reward: Reward) -> ApiCall[str]:
        """Send the reward of a decision; returns "learnt", or "repeated" if the decision already had this reward."""
        return post(experiment_path(experiment, "reward"), _reward_of(decision, reward), field_reader("status"))

    @CallMethod
    def reward_many(self, experiment: str, rewards: Iterable[tuple[Decision | int, Reward]]) -> ApiCall[list[str]]:
        """Send rewards of several decisions in one request: all of them are learnt, or none if one is invalid."""
        body = {"rewards": [_reward_of(decision, reward) for decision, reward in rewards]}
        return post(experiment_path(experiment, "reward"), body, decode_statuses)

    @StreamMethod
    def reward_stream(
        self,
        experiment: str,
        rewards: Iterable[tuple[Decision | int, Reward]] | AsyncIterable[tuple[Decision | int, Reward]],
        *,
        chunk: int = 1_000,
    ) -> AsyncIterator[str | ServiceError]:
        """Send any number of rewards, in chunks; yields "learnt", "repeated" or an error for each, in order.

        The iterator sends requests when it is consumed: ``for result in client.reward_stream(…)``.
        """
        path = experiment_path(experiment, "reward")
        return send_lines(self, path, rewards, chunk, _reward_line, itemgetter("status"))

    @CallMethod
    def preview(self, experiment: str, context: Context) -> ApiCall[Info]:
        """Preview a decision and its explanation, without effect."""
        return post(experiment_path(experiment, "preview"), {"context": encode_context(context)}, decode_json)

    # --- experiments

    @CallMethod
    def policies(self) -> ApiCall[list[Info]]:
        """All policies that an experiment can use, with their parameters."""
        return ApiCall(method="GET", path="/v1/policies", read=field_reader("policies"))

    @CallMethod
    def create(
        self,
        experiment: str,
        actions: Sequence[Label],
        features: Any,
        *,
        policy: str = "AdaptiveReleaf",
        parameters: Mapping[str, Any] | None = None,
        reward_within: float | None = None,
        reward_default: Reward | None = None,
        model: Any = None,
    ) -> ApiCall[Info]:
        """Create an experiment; raises :class:`Conflict` if the name is taken.

        Parameters
        ----------
        experiment
            Its name: letters, digits, ``_``, ``.`` and ``-``.
        actions
            The actions to choose from.
        features
            A count or names, for values in [0, 1]; a :class:`releaf.Schema`; or a list of mappings with a name and a
            kind.
        policy, parameters
            Class name of the policy, and the arguments of its constructor.
        reward_within
            Deadline of rewards, in seconds after the decision.
        reward_default
            Default reward of a decision that misses the deadline; None drops the decision.
        model
            A learner to continue from: the object, its bytes, or its file.
        """
        body = {
            "name": experiment,
            "actions": list(actions),
            "features": encode_features(features),
            "policy": policy_spec(policy, parameters),
            "rewards": {"within_seconds": reward_within, "default": reward_default},
            "model": encode_model(model),
        }
        return change("POST", experiment_path(), body)

    @CallMethod
    def experiments(self) -> ApiCall[list[Info]]:
        """All experiments that the key may read."""
        return ApiCall(method="GET", path=experiment_path(), read=field_reader("experiments"))

    @CallMethod
    def info(self, experiment: str) -> ApiCall[Info]:
        """An experiment and its status."""
        return get(experiment_path(experiment))

    @CallMethod
    def retire(self, experiment: str) -> ApiCall[Info]:
        """Retire an experiment: it makes no more decisions; all stays readable."""
        return change("DELETE", experiment_path(experiment))

    @CallMethod
    def add_action(self, experiment: str, action: Label) -> ApiCall[Info]:
        """Add an action."""
        return change("POST", experiment_path(experiment, "actions"), {"action": action})

    @CallMethod
    def retire_action(self, experiment: str, action: Label) -> ApiCall[Info]:
        """Retire an action."""
        return change("DELETE", experiment_path(experiment, "actions", action))

    @CallMethod
    def add_shadow(
        self, experiment: str, shadow: str, policy: str, parameters: Mapping[str, Any] | None = None
    ) -> ApiCall[Info]:
        """Add a shadow: a policy that decides on the same contexts without effect, to estimate its value."""
        body = {"name": shadow, "policy": policy_spec(policy, parameters)}
        return change("POST", experiment_path(experiment, "shadows"), body)

    @CallMethod
    def remove_shadow(self, experiment: str, shadow: str) -> ApiCall[Info]:
        """Remove a shadow, with what it has learnt."""
        return change("DELETE", experiment_path(experiment, "shadows", shadow))

    @CallMethod
    def promote(self, experiment: str, shadow: str) -> ApiCall[Info]:
        """Put a shadow in charge; the policy that was in charge becomes the shadow "former"."""
        return change("POST", experiment_path(experiment, "shadows", shadow, "promote"))

    # --- explanations and records

    @CallMethod
    def relevance(self, experiment: str) -> ApiCall[Info]:
        """Relevance of each feature (columns) to each action (rows)."""
        return get(experiment_path(experiment, "relevance"))

    @CallMethod
    def partition(self, experiment: str, feature: str) -> ApiCall[Info]:
        """Partition of a feature's values, with the rewards of each action in each interval."""
        return get(experiment_path(experiment, "partition", feature))

    @CallMethod
    def explain(self, experiment: str, decision: Decision | int) -> ApiCall[Info]:
        """Explanation of a decision."""
        return get(experiment_path(experiment, "explain", decision_number(decision)))

    @CallMethod
    def series(self, experiment: str) -> ApiCall[list[Info]]:
        """Time series of exploration and rewards, in at most 200 points."""
        return ApiCall(method="GET", path=experiment_path(experiment, "series"), read=field_reader("points"))

    @StreamMethod
    def decisions(
        self,
        experiment: str,
        *,
        action: Label | None = None,
        explored: bool | None = None,
        outcome: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        page: int = 200,
    ) -> AsyncIterator[Info]:
        """Iterate over recorded decisions, the latest first, page by page.

        Parameters
        ----------
        experiment
            Its name.
        action, explored, outcome
            Filters; outcomes are waiting, rewarded, default, dropped and unasked.
        since, until
            Time range of the decisions; a datetime needs a time zone.
        page
            Decisions per request.
        """
        filters = {"action": action, "explored": explored, "outcome": outcome, "limit": page}
        filters |= {"since": _format_time("since", since), "until": _format_time("until", until)}
        return send_pages(self, experiment_path(experiment, "decisions"), filters)

    @CallMethod
    def model(self, experiment: str) -> ApiCall[Any]:
        """A copy of the learner in charge, independent of the service."""
        return ApiCall(method="GET", path=experiment_path(experiment, "model"), read=_learner)

    @CallMethod
    def export(self, experiment: str, path: str | os.PathLike[str], *, format: str | None = None) -> ApiCall[Path]:  # noqa: A002
        """Export all decisions to a file, atomically, as "csv", "parquet" or "ndjson"; by default by its extension."""
        return ApiCall(
            method="GET",
            path=experiment_path(experiment, "export"),
            params={"format": export_format(path, format)},
            take=export_taker(path),
            read=lambda response: Path(path),
            read_timeout=EXPORT_TIMEOUT,
        )

    @StreamMethod
    async def feed(self, experiment: str) -> AsyncIterator[Event]:
        """Iterate over the events of an experiment as they happen, without end; reconnects if the connection breaks."""
        call = ApiCall(
            method="GET",
            path=experiment_path(experiment, "feed"),
            take=lambda transport, response: None,  # read line by line below
            read=lambda response: response,
            read_timeout=FEED_TIMEOUT,
        )
        again = False
        while True:
            response, parser = await self._send(call), EventStreamParser()
            try:
                if again:
                    yield Event("reconnected", {})
                with suppress(httpx.TransportError):
                    async for line in each(self._transport.lines(response)):
                        if event := parser.feed_line(line):
                            yield event
            finally:
                await settle(self._transport.close(response))
            again = True
            await settle(self._transport.sleep(RECONNECT_PAUSE))

    # --- the service itself

    @CallMethod
    def health(self) -> ApiCall[Info]:
        """Health and version of the service; not retried."""
        return ApiCall(method="GET", path="/healthz", read=decode_json, retry="never")


def _reward_of(decision: Decision | int, reward: Reward) -> Info:
    return {"decision": decision_number(decision), "reward": reward}


def _reward_line(pair: tuple[Decision | int, Reward]) -> bytes:
    return encode_json(_reward_of(*pair))


def _context_line(context: Context) -> bytes:
    return encode_json({"context": encode_context(context), "key": uuid4().hex})


def _learner(response: httpx.Response) -> Any:
    from releaf.ensembles import from_bytes  # imported here because policies need Numba, and clients don't

    return from_bytes(response.content)


def _format_time(name: str, moment: datetime | str | None) -> str | None:
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"{name} needs a time zone, got {moment!r}")
    return moment.isoformat()
