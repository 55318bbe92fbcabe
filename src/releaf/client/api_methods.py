"""Methods of both clients besides decisions and rewards: one for each operation of the API."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Iterator as Iterator  # in the annotations that help shows
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from releaf.client.call import ApiCall, get
from releaf.client.call_sequences import send_pages
from releaf.client.decision_methods import DecisionMethods, Info, Reward
from releaf.client.event_stream import EventStreamParser
from releaf.client.exported_files import export_format, export_taker
from releaf.client.method_descriptors import CallMethod, StreamMethod
from releaf.client.request_encoding import (
    decision_number,
    encode_actions,
    encode_context,
    encode_features,
    encode_json,
    encode_model,
    experiment_path,
    policy_spec,
)
from releaf.client.response_decoding import decode_json, field_reader
from releaf.client.responses import Decision, Event, Label, PolicyVersion
from releaf.client.transports import each, settle

CHANGE_TIMEOUT = 180.0  # seconds: the service compiles a policy that it runs for the first time
FEED_TIMEOUT = 45.0  # seconds without data: the service sends a keep-alive every 15
EXPORT_TIMEOUT = 60.0  # seconds without data, while the service reads a long log
RECONNECT_PAUSE = 0.5  # seconds


def change(method: str, path: str, body: Any = None, **params: str) -> ApiCall[Info]:
    """A change of an experiment; sent again only if it can't have arrived."""
    content = None if body is None else encode_json(body)
    return ApiCall(
        method=method,
        path=path,
        read=decode_json,
        body=content,
        params=params,
        retry="unsent",
        read_timeout=CHANGE_TIMEOUT,
    )


class ApiMethods(DecisionMethods):
    """Methods of `Client` and `AsyncClient`."""

    # --- experiments

    @CallMethod
    def policies(self) -> ApiCall[list[Info]]:
        """All policies that an experiment can use, with their parameters."""
        return ApiCall(method="GET", path="/v1/policies", read=field_reader("policies"))

    @CallMethod
    def create(
        self,
        experiment: str,
        actions: Sequence[Label] | Mapping[str, Any],
        features: Any,
        *,
        action_features: Any = None,
        policy: str = "AdaptiveReleaf",
        parameters: Mapping[str, Any] | None = None,
        reward_within: float | None = None,
        reward_default: Reward | None = None,
        reward_signed: bool | None = None,
        contexts_days: float | None = None,
        decisions_days: float | None = None,
        hash_contexts: bool = False,
        model: Any = None,
        apprentice: bool = False,
    ) -> ApiCall[Info]:
        """Create an experiment; raises :class:`Conflict` if the name is taken.

        Parameters
        ----------
        experiment
            Its name: letters, digits, ``_``, ``.`` and ``-``.
        actions
            The actions to choose from; with ``action_features`` a mapping from names to the features of each, empty if
            all actions come with the decisions.
        features
            A count or names, for values in [0, 1]; a :class:`releaf.Schema`; or a list of mappings with a name and a
            kind.
        action_features
            The features of an action, like ``features``, for a policy that knows them: ``JointReleaf`` or
            ``HybridLinUCB``.
        policy, parameters
            Class name of the policy, and the arguments of its constructor.
        reward_within
            Deadline of rewards, in seconds after the decision.
        reward_default
            Default reward of a decision that misses the deadline; None drops the decision.
        reward_signed
            Whether rewards need the receipt of their decision, so that nobody can reward decisions of others by
            counting their numbers. By default they do where the service requires keys.
        contexts_days, decisions_days
            Retention: days after which the log drops contexts, and decisions; None keeps them.
        hash_contexts
            Whether keyed hashes stay in place of contexts.
        model
            A learner to continue from: the object, its bytes, or its file.
        apprentice
            Whether the application decides, and sends each decision as ``baseline``, while the learner watches.
        """
        body: Info = {
            "name": experiment,
            "actions": encode_actions(actions) if isinstance(actions, Mapping) else list(actions),
            "features": encode_features(features),
            "policy": policy_spec(policy, parameters),
            "rewards": {"within_seconds": reward_within, "default": reward_default},
            "retention": _retention(contexts_days, decisions_days, hash_contexts=hash_contexts),
            "model": encode_model(model),
        }
        if reward_signed is not None:
            body["rewards"]["signed"] = reward_signed
        if action_features is not None:
            body["action_features"] = encode_features(action_features)
        if apprentice:
            body["apprentice"] = True
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
    def set_retention(
        self,
        experiment: str,
        *,
        contexts_days: float | None = None,
        decisions_days: float | None = None,
        hash_contexts: bool = False,
    ) -> ApiCall[Info]:
        """Change the days after which the log drops contexts, and decisions; None keeps them.

        With ``hash_contexts``, keyed hashes stay in place of contexts.
        """
        body = _retention(contexts_days, decisions_days, hash_contexts=hash_contexts)
        return change("PUT", experiment_path(experiment, "retention"), body)

    @CallMethod
    def erase_subject(self, experiment: str, subject: str) -> ApiCall[Info]:
        """Erase all decisions of a subject, with their contexts and rewards; returns the proof.

        The scope ``admin`` is needed. A repeated call goes on with what is left.
        """
        return change("POST", experiment_path(experiment, "erase"), {"subject": subject})

    @CallMethod
    def retire(self, experiment: str) -> ApiCall[Info]:
        """Retire an experiment: it makes no more decisions; all stays readable."""
        return change("DELETE", experiment_path(experiment))

    @CallMethod
    def add_action(
        self, experiment: str, action: Label, features: Any = None, *, cost: float | None = None
    ) -> ApiCall[Info]:
        """Add an action, with its ``features`` where actions have some, and its ``cost`` where they have fixed ones."""
        own = {} if features is None else {"features": encode_context(features)}
        own |= {} if cost is None else {"cost": cost}
        return change("POST", experiment_path(experiment, "actions"), {"action": action, **own})

    @CallMethod
    def retire_action(self, experiment: str, action: Label) -> ApiCall[Info]:
        """Retire an action: it is not taken any more.

        All learners of the experiment, shadows too, delete what they have learnt of it, and its pending decisions are
        dropped: their rewards count for nothing. Its decisions stay in the log.
        """
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
    def promote(self, experiment: str, shadow: str, *, force: bool = False) -> ApiCall[Info]:
        """Put a shadow in charge; the policy that was in charge becomes the shadow "former".

        An apprentice, ``promote(experiment, "apprentice")``, decides from then on. Unless the learner is shown to earn
        more than what decides now, that raises :class:`Conflict`; with ``force`` it is promoted all the same.
        """
        path = experiment_path(experiment, "shadows", shadow, "promote")
        return change("POST", path, **({"force": "true"} if force else {}))

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
    def series(
        self,
        experiment: str,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> ApiCall[list[Info]]:
        """Time series of exploration, rewards and actions, in at most 200 points.

        Parameters
        ----------
        experiment
            Its name.
        since, until
            Time range; a datetime needs a time zone.
        limit
            Largest number of points.
        """
        given = {"since": _format_time("since", since), "until": _format_time("until", until), "limit": limit}
        return ApiCall(
            method="GET",
            path=experiment_path(experiment, "series"),
            params={name: value for name, value in given.items() if value is not None},
            read=field_reader("points"),
        )

    @CallMethod
    def summary(
        self,
        experiment: str,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        baseline: Label | None = None,
    ) -> ApiCall[Info]:
        """Share, mean reward and lift of each action in a range of time, regret, and changes on the time axis.

        Parameters
        ----------
        experiment
            Its name.
        since, until
            Time range; a datetime needs a time zone.
        baseline
            Action to compare with; by default the first of the experiment.
        """
        return get(
            experiment_path(experiment, "summary"),
            since=_format_time("since", since),
            until=_format_time("until", until),
            baseline=baseline,
        )

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
        return send_pages(self, experiment_path(experiment, "decisions"), filters, "decisions")

    @StreamMethod
    def changes(self, experiment: str | None = None, *, page: int = 200) -> AsyncIterator[Info]:
        """Iterate over the audit log, the latest change first: of one experiment, or of all, of keys and settings.

        Parameters
        ----------
        experiment
            Its name; None for all changes, which needs the scope ``*:admin``.
        page
            Changes per request.
        """
        return send_pages(self, "/v1/audit", {"experiment": experiment, "limit": page}, "changes")

    @CallMethod
    def model(self, experiment: str) -> ApiCall[Any]:
        """A copy of the learner in charge, independent of the service."""
        return ApiCall(method="GET", path=experiment_path(experiment, "model"), read=_learner)

    @CallMethod
    def policy(self, experiment: str, *, etag: str | None = None) -> ApiCall[PolicyVersion | None]:
        """The policy in charge as it is now, frozen, to decide without the service; None if it is still the same.

        Parameters
        ----------
        experiment
            Its name.
        etag
            The ``etag`` of the version that you have.
        """
        return ApiCall(
            method="GET",
            path=experiment_path(experiment, "policy"),
            headers={} if etag is None else {"If-None-Match": etag},
            read=_policy_version,
        )

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
        """Health and version of the service; not retried, and asked for whatever the circuit breaker says."""
        return ApiCall(method="GET", path="/healthz", read=decode_json, retry="never", breaks_circuit=False)


def _retention(contexts_days: float | None, decisions_days: float | None, *, hash_contexts: bool) -> Info:
    """Rules of retention; without ``hash_contexts`` as services of earlier versions know them."""
    rules: Info = {"contexts_days": contexts_days, "decisions_days": decisions_days}
    return {**rules, "hash_contexts": True} if hash_contexts else rules


def _learner(response: httpx.Response) -> Any:
    from releaf.ensembles import from_bytes  # imported here because policies need Numba, and clients don't

    return from_bytes(response.content)


def _policy_version(response: httpx.Response) -> PolicyVersion | None:
    return None if response.status_code == 304 else PolicyVersion(response.headers["ETag"], response.content)


def _format_time(name: str, moment: datetime | str | None) -> str | None:
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"{name} needs a time zone, got {moment!r}")
    return moment.isoformat()
