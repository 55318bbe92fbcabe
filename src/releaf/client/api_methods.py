"""All that a service offers, each said once: what is sent, and what the answer is read as."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence  # noqa: F401  (Iterator: for help)
from datetime import datetime
from operator import itemgetter
from typing import Any
from uuid import uuid4

import httpx

from releaf.client import calls
from releaf.client.calls import Call, Page, Take, Walk, content_of, encoded, part_of, place
from releaf.client.method_descriptors import Operation, Walking
from releaf.client.responses import Decision, Label, ServiceError

Context = Mapping[str, Any] | Sequence[Any]
Reward = float | Sequence[float] | Mapping[str, float]
Info = dict[str, Any]
CHANGE_SILENCE = 180.0  # seconds: a policy that a machine runs for the first time is compiled there


def get(path: str, **params: Any) -> Call[Info]:
    given = {name: value for name, value in params.items() if value is not None}
    return Call(method="GET", path=path, read=content_of, params=given)


def change(method: str, path: str, body: Any = None) -> Call[Info]:
    """A change of an experiment, which is not sent again where it may have arrived."""
    content = None if body is None else encoded(body)
    return Call(method=method, path=path, read=content_of, body=content, repeat="unsent", silence=CHANGE_SILENCE)


class Operations:
    """What both clients can do."""

    # --- decisions and rewards

    @Operation
    def decide(self, experiment: str, context: Context, *, key: str | None = None) -> Call[Decision]:
        """Decide on one context.

        Parameters
        ----------
        experiment
            Its name.
        context
            A mapping from features to values, or the values in order. None and NaN are missing values.
        key
            The same key gives the same decision again. One is made up for each call, and kept for all its attempts: a
            retry never decides twice. Give one of your own, an order's number say, where your program may ask again.
        """
        body = {"context": calls.plain_context(context), "key": key or uuid4().hex}
        return Call(method="POST", path=place(experiment, "decide"), read=calls.decision_of, body=encoded(body))

    @Operation
    def decide_many(
        self, experiment: str, contexts: Iterable[Context], *, keys: Sequence[str] | None = None
    ) -> Call[list[Decision]]:
        """Decide on some contexts at once: on all of them, or on none where one is wrong."""
        plain = [calls.plain_context(context) for context in contexts]
        if keys is not None and len(keys) != len(plain):
            raise ValueError(f"keys has {len(keys)} entries, contexts has {len(plain)}: one for each is needed")
        body = {"contexts": plain, "keys": list(keys) if keys is not None else [uuid4().hex for _ in plain]}
        return Call(method="POST", path=place(experiment, "decide"), read=calls.decisions_of, body=encoded(body))

    @Walking
    def decide_stream(
        self, experiment: str, contexts: Iterable[Context] | AsyncIterable[Context], *, chunk: int = 1_000
    ) -> Walk[Decision | ServiceError]:
        """Decide on any number of contexts, some at a time; gives a decision or an error for each, in their order.

        Nothing is sent before it is iterated over: ``for answer in client.decide_stream(…)``.

        Parameters
        ----------
        experiment
            Its name.
        contexts
            Where they come from: a generator, a file's rows, say. Only one portion at a time is held. An
            :class:`AsyncClient` takes asynchronous ones too.
        chunk
            How many go into one request. A source that is slow wants few, since a portion waits until it is full.
        """
        return _lines(place(experiment, "decide"), contexts, chunk, _context_line, Decision.of)

    @Operation
    def reward(self, experiment: str, decision: Decision | int, reward: Reward) -> Call[str]:
        """Give the reward of a decision: "learnt", or "repeated" where the same one had come before."""
        body = _reward_of(decision, reward)
        return Call(
            method="POST",
            path=place(experiment, "reward"),
            read=part_of("status"),
            body=encoded(body),
        )

    @Operation
    def reward_many(self, experiment: str, rewards: Iterable[tuple[Decision | int, Reward]]) -> Call[list[str]]:
        """Give the rewards of some decisions at once: all of them, or none where one is wrong."""
        body = {"rewards": [_reward_of(decision, reward) for decision, reward in rewards]}
        return Call(
            method="POST",
            path=place(experiment, "reward"),
            read=lambda response: [learnt["status"] for learnt in content_of(response)["rewards"]],
            body=encoded(body),
        )

    @Walking
    def reward_stream(
        self,
        experiment: str,
        rewards: Iterable[tuple[Decision | int, Reward]] | AsyncIterable[tuple[Decision | int, Reward]],
        *,
        chunk: int = 1_000,
    ) -> Walk[str | ServiceError]:
        """Give any number of rewards, some at a time; tells "learnt", "repeated" or an error of each, in their order.

        Nothing is sent before it is iterated over: ``for told in client.reward_stream(…)``.
        """
        return _lines(place(experiment, "reward"), rewards, chunk, _reward_line, itemgetter("status"))

    @Operation
    def preview(self, experiment: str, context: Context) -> Call[Info]:
        """What it would decide now, and why; leaves no trace."""
        body = encoded({"context": calls.plain_context(context)})
        return Call(method="POST", path=place(experiment, "preview"), read=content_of, body=body)

    # --- experiments

    @Operation
    def policies(self) -> Call[list[Info]]:
        """All policies that an experiment can use, with their parameters."""
        return Call(method="GET", path="/v1/policies", read=part_of("policies"))

    @Operation
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
    ) -> Call[Info]:
        """Create an experiment. :class:`Conflict` where the name is taken.

        Parameters
        ----------
        experiment
            Its name: letters, digits, ``_``, ``.`` and ``-``.
        actions
            What there is to choose from.
        features
            A count or names, for values in [0, 1]; a :class:`releaf.Schema`; or a list of mappings with a name and a
            kind.
        policy, parameters
            Which policy decides, and the arguments of its constructor.
        reward_within
            Seconds in which a reward has to come.
        reward_default
            What is learnt where it doesn't; None drops the decision.
        model
            A learner to go on from: itself, the bytes of one, or the file that it was saved to.
        """
        body = {
            "name": experiment,
            "actions": list(actions),
            "features": calls.plain_features(features),
            "policy": calls.policy_spec(policy, parameters),
            "rewards": {"within_seconds": reward_within, "default": reward_default},
            "model": calls.plain_model(model),
        }
        return change("POST", place(), body)

    @Operation
    def experiments(self) -> Call[list[Info]]:
        """All experiments that the key may read."""
        return Call(method="GET", path=place(), read=part_of("experiments"))

    @Operation
    def info(self, experiment: str) -> Call[Info]:
        """An experiment and how it stands."""
        return get(place(experiment))

    @Operation
    def retire(self, experiment: str) -> Call[Info]:
        """End an experiment: no more decisions; all stays readable."""
        return change("DELETE", place(experiment))

    @Operation
    def add_action(self, experiment: str, action: Label) -> Call[Info]:
        """Offer one more action from now on."""
        return change("POST", place(experiment, "actions"), {"action": action})

    @Operation
    def retire_action(self, experiment: str, action: Label) -> Call[Info]:
        """Offer an action no more."""
        return change("DELETE", place(experiment, "actions", action))

    @Operation
    def add_shadow(
        self, experiment: str, shadow: str, policy: str, parameters: Mapping[str, Any] | None = None
    ) -> Call[Info]:
        """Let another policy decide on the same contexts, without effect, to see what it would earn."""
        body = {"name": shadow, "policy": calls.policy_spec(policy, parameters)}
        return change("POST", place(experiment, "shadows"), body)

    @Operation
    def remove_shadow(self, experiment: str, shadow: str) -> Call[Info]:
        """Remove a shadow, and what it has learnt."""
        return change("DELETE", place(experiment, "shadows", shadow))

    @Operation
    def promote(self, experiment: str, shadow: str) -> Call[Info]:
        """Put a shadow in charge; the policy that was becomes a shadow called "former"."""
        return change("POST", place(experiment, "shadows", shadow, "promote"))

    # --- what was learnt

    @Operation
    def relevance(self, experiment: str) -> Call[Info]:
        """How relevant each feature (columns) is to each action (rows)."""
        return get(place(experiment, "relevance"))

    @Operation
    def partition(self, experiment: str, feature: str) -> Call[Info]:
        """How a feature's values are divided, and what actions earned in each interval."""
        return get(place(experiment, "partition", feature))

    @Operation
    def explain(self, experiment: str, decision: Decision | int) -> Call[Info]:
        """Why an action was chosen, in words."""
        return get(place(experiment, "explain", calls.number_of(decision)))

    @Operation
    def series(self, experiment: str) -> Call[list[Info]]:
        """Exploration and rewards over time, in at most 200 points."""
        return Call(method="GET", path=place(experiment, "series"), read=part_of("points"))

    @Walking
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
    ) -> Walk[Info]:
        """Decisions as the log has them, the latest first, read a page at a time.

        Parameters
        ----------
        experiment
            Its name.
        action, explored, outcome
            Only those; outcomes are waiting, rewarded, default, dropped and unasked.
        since, until
            Only those made in this time; a datetime needs its zone.
        page
            How many to fetch at a time.
        """
        filters = {"action": action, "explored": explored, "outcome": outcome, "limit": page}
        filters |= {"since": _moment("since", since), "until": _moment("until", until)}
        return _pages(place(experiment, "decisions"), filters)

    @Operation
    def model(self, experiment: str) -> Call[Any]:
        """A copy of the learner in charge, which goes on by itself."""
        return Call(method="GET", path=place(experiment, "model"), read=_learner)

    # --- the service itself

    @Operation
    def health(self) -> Call[Info]:
        """Whether the service answers at this moment, and its version."""
        return Call(method="GET", path="/healthz", read=content_of, repeat="never")


def _reward_of(decision: Decision | int, reward: Reward) -> Info:
    return {"decision": calls.number_of(decision), "reward": reward}


def _reward_line(pair: tuple[Decision | int, Reward]) -> bytes:
    return encoded(_reward_of(*pair))


def _context_line(context: Context) -> bytes:
    return encoded({"context": calls.plain_context(context), "key": uuid4().hex})


def _learner(response: httpx.Response) -> Any:
    from releaf.ensembles import from_bytes  # the policies need Numba; nothing else of a client does

    return from_bytes(response.content)


def _moment(name: str, moment: datetime | str | None) -> str | None:
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"{name} must tell its time zone, got {moment!r}")
    return moment.isoformat()


def _pages(path: str, filters: Mapping[str, Any]) -> Walk[Info]:
    def read(response: httpx.Response) -> Page[Info]:
        content = content_of(response)
        return Page(content["decisions"], content["next"])

    given = {name: value for name, value in filters.items() if value is not None}
    before: int | None = None
    while True:
        params = given if before is None else given | {"before": before}
        page = yield Call(method="GET", path=path, read=read, params=params)
        before = page.next
        if before is None:
            return


def _lines(path: str, source: Any, chunk: int, line: Any, read: Any) -> Walk[Any]:
    """Sends what comes from a source, one a line; each portion is sent again as it was, keys included."""
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    items = aiter(source) if isinstance(source, AsyncIterable) else iter(source)
    while taken := (yield Take(items, chunk)):
        for lines in calls.by_size(map(line, taken)):
            yield Call(
                method="POST",
                path=path,
                read=calls.lines_of(read, len(lines)),
                body=b"\n".join(lines) + b"\n",
                kind=calls.LINES,
                undone=calls.some_undone,
            )
