"""What the service can do over HTTP: one operation after the other, and how each is done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from msgspec import UNSET

from releaf._version import __version__
from releaf.service.auth.access_control import client_of
from releaf.service.errors import Problem, invalid
from releaf.service.experiments import decision_records as records
from releaf.service.experiments import explanations as reading
from releaf.service.experiments.event_feeds import Feed
from releaf.service.experiments.learner_factory import known_policies
from releaf.service.experiments.served_experiment import LIVE, RECOVERING, Running
from releaf.service.http.endpoint import Call, Raw, decoded, encoder, error_answer, header
from releaf.service.http.metrics import CONTENT_TYPE
from releaf.service.log.events import AnyEvent, Decided, Expired, Rewarded
from releaf.service.messages import (
    AllLearnt,
    Answer,
    Answers,
    Ask,
    ErrorAnswer,
    ExperimentInfo,
    ExperimentList,
    ExplanationInfo,
    Health,
    Learnt,
    PartitionInfo,
    PolicyList,
    RecordedPage,
    RelevanceInfo,
    RewardOf,
    SeriesInfo,
)

QUIET_SECONDS = 15.0
_asks = msgspec.json.Decoder(Ask)
_rewards = msgspec.json.Decoder(RewardOf)


def _running(call: Call) -> Running:
    return call.hub.find(call.path["experiment"])


# --- experiments --------------------------------------------------------------------------------------------


async def list_policies(call: Call) -> PolicyList:
    return PolicyList(known_policies())


async def create_experiment(call: Call) -> ExperimentInfo:
    call.identity.demand(call.body.name, "admin")
    return (await call.hub.create(call.body)).info()


async def list_experiments(call: Call) -> ExperimentList:
    found = call.hub.experiments.values()
    return ExperimentList([running.info() for running in found if call.identity.allows(running.name, "read")])


async def get_experiment(call: Call) -> ExperimentInfo:
    return _running(call).info()


async def retire_experiment(call: Call) -> ExperimentInfo:
    running = _running(call)
    await call.hub.retire(running)
    return running.info()


async def add_action(call: Call) -> ExperimentInfo:
    running = _running(call)
    await running.change("add_action", call.body.action)
    return running.info()


async def retire_action(call: Call) -> ExperimentInfo:
    running, given = _running(call), call.path["action"]
    known = [action for action in running.live().learner.actions if str(action) == given]
    if not known:
        raise Problem(404, "unknown_action", f"there is no action {given!r}")
    await running.change("remove_action", known[0])
    return running.info()


# --- shadows ------------------------------------------------------------------------------------------------


async def add_shadow(call: Call) -> ExperimentInfo:
    running = _running(call)
    await running.add_shadow(call.body)
    return running.info()


async def remove_shadow(call: Call) -> ExperimentInfo:
    running = _running(call)
    await running.change("remove_shadow", call.path["shadow"])
    return running.info()


async def promote_shadow(call: Call) -> ExperimentInfo:
    running = _running(call)
    await running.change("promote", call.path["shadow"])
    return running.info()


# --- decisions and rewards ----------------------------------------------------------------------------------


async def decide(call: Call) -> Answer | Answers | Raw:
    running = _running(call)
    if call.lines is not None:
        return await _decide_lines(call, running)
    ask: Ask = call.body
    if (ask.context is UNSET) == (ask.contexts is UNSET):
        raise invalid("expected either context, for one decision, or contexts, for many")
    if ask.contexts is UNSET:
        if ask.keys is not None:
            raise invalid("keys go with contexts; expected key")
        (event,) = await _decided(call, running, [ask.context], [ask.key or _header_key(call)])
        return reading.answers([event], running.live())[0]
    if ask.key is not None:
        raise invalid("key goes with context; expected keys, one for each context")
    contexts: list[Any] = ask.contexts
    _require_few(call, len(contexts))
    running.require_time_for(len(contexts))
    if ask.keys is not None and len(ask.keys) != len(contexts):
        raise invalid(f"got {len(ask.keys)} keys for {len(contexts)} contexts: expected one for each")
    keys: list[str | None] = [*ask.keys] if ask.keys is not None else [None] * len(contexts)
    events = await _decided(call, running, contexts, keys)
    return Answers(reading.answers(events, running.live()))


def _header_key(call: Call) -> str | None:
    key = header(call.scope, b"idempotency-key")
    if key is not None and not 1 <= len(key) <= 200:
        raise invalid("the Idempotency-Key must have 1 to 200 characters")
    return key


async def _decided(call: Call, running: Running, contexts: list[Any], keys: list[str | None]) -> list[Decided]:
    events = await running.decide(contexts, keys)
    call.metrics.recent(running.name).add([event.explored for event in events])
    return events


def _require_few(call: Call, count: int) -> None:
    limit = call.settings.batch_limit
    if count > limit:
        raise Problem(413, "too_many", f"{count:,} in one request: expected at most {limit:,}")


async def _decide_lines(call: Call, running: Running) -> Raw:
    """Each line by itself: what is wrong with one does not concern the others."""
    lines: list[bytes] = call.lines or []
    _require_few(call, len(lines))
    running.require_time_for(len(lines))
    asked = [_read_line(_asks, line, _require_one_context) for line in lines]

    async def ask(some: list[Ask]) -> list[Any]:
        events = await _decided(call, running, [one.context for one in some], [one.key for one in some])
        return reading.answers(events, running.live())

    return _as_lines(await _line_by_line(asked, ask))


def _require_one_context(ask: Ask) -> None:
    if ask.context is UNSET or ask.contexts is not UNSET or ask.keys is not None:
        raise invalid("expected a context in each line")


def _read_line(decoder: msgspec.json.Decoder[Any], line: bytes, check: Callable[[Any], None]) -> Any:
    """What a line says, or the error that it is answered with."""
    try:
        said = decoded(decoder, line)
        check(said)
        return said
    except Problem as problem:
        return error_answer(problem)


async def _line_by_line(said: list[Any], do: Callable[[list[Any]], Awaitable[list[Any]]]) -> list[Any]:
    """Do what the lines ask for all at once, which is faster; one after the other where that is refused."""
    places = [place for place, one in enumerate(said) if not isinstance(one, ErrorAnswer)]
    answers = list(said)
    try:
        done = await do([said[place] for place in places]) if places else []
    except Problem as problem:
        if problem.status >= 500:
            raise
        done = await asyncio.gather(*(_do_one(said[place], do) for place in places))
    for place, answer in zip(places, done, strict=True):
        answers[place] = answer
    return answers


async def _do_one(one: Any, do: Callable[[list[Any]], Awaitable[list[Any]]]) -> Any:
    try:
        return (await do([one]))[0]
    except Problem as problem:
        return error_answer(problem)


def _as_lines(answers: list[Any]) -> Raw:
    return Raw(encoder.encode_lines(answers), b"application/x-ndjson")


async def reward(call: Call) -> Learnt | AllLearnt | Raw:
    running = _running(call)
    if call.lines is not None:
        _require_few(call, len(call.lines))
        given = [_read_line(_rewards, line, lambda one: None) for line in call.lines]
        return _as_lines(await _line_by_line(given, running.reward))
    body = call.body
    if (body.rewards is UNSET) == (body.decision is UNSET and body.reward is UNSET):
        raise invalid("expected either decision and reward, or rewards, for many")
    if body.rewards is not UNSET:
        _require_few(call, len(body.rewards))
        return AllLearnt(await running.reward(body.rewards))
    if body.decision is UNSET or body.reward is UNSET:
        raise invalid("expected both decision and reward")
    (learnt,) = await running.reward([RewardOf(decision=body.decision, reward=body.reward)])
    return learnt


async def preview(call: Call) -> ExplanationInfo:
    return reading.preview(_running(call).live(), call.body.context)


# --- what was learnt and what happened ----------------------------------------------------------------------


async def get_relevance(call: Call) -> RelevanceInfo:
    return reading.relevance(_running(call).live())


async def get_partition(call: Call) -> PartitionInfo:
    return reading.partition(_running(call).live(), call.path["feature"])


async def explain(call: Call) -> ExplanationInfo:
    running = _running(call)
    event = await running.decided(_whole("decision", call.path["decision"], 1, 2**53))
    return reading.explanation(running.live(), event)


def _whole(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise invalid(f"{name} is {text[:40]!r}: expected a whole number from {least} to {most:,}")
    return int(text)


async def list_decisions(call: Call) -> RecordedPage:
    query = call.query
    limit = _whole("limit", query.get("limit", "50"), 1, records.MOST_LISTED)
    before = _whole("before", query["before"], 1, 2**53) if "before" in query else None
    wanted = records.wanted_by(
        query.get("action"), query.get("explored"), query.get("outcome"), query.get("since"), query.get("until")
    )
    return await records.listed(_running(call), limit, before, wanted)


async def export_decisions(call: Call) -> Raw:
    running, form = _running(call), call.query.get("format", "csv")
    running.live()
    if form not in records.FORMATS:
        raise invalid(f"format is {form!r}: expected one of {', '.join(records.FORMATS)}")
    name = f'attachment; filename="{running.name}.{form}"'.encode()
    return Raw(records.exported(running, form), records.FORMATS[form].encode(), [(b"content-disposition", name)])


async def get_series(call: Call) -> SeriesInfo:
    return SeriesInfo(_running(call).live().series.tell())


async def get_model(call: Call) -> Raw:
    running = _running(call)
    name = f'attachment; filename="{running.name}.releaf"'.encode()
    content = await asyncio.to_thread(running.live().learner.freeze())
    return Raw(content, b"application/octet-stream", [(b"content-disposition", name)])


async def feed(call: Call) -> Raw:
    running = _running(call)
    running.live()
    watched = call.hub.watchers.admit(call.identity.id or client_of(call.scope))
    headers = [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
    return Raw(_feed(call, running, watched), b"text/event-stream", headers)


async def _feed(call: Call, running: Running, watched: Feed) -> AsyncIterator[bytes]:
    running.feeds.add(watched)
    try:
        yield b": watching\n\n"
        told = time.monotonic()
        while True:
            event = await call.hub.watchers.next(watched, lambda: call.guard.knows(call.identity, call.scope))
            if event is not None:
                yield b"".join(_told_event(running, event))
            elif time.monotonic() - told >= QUIET_SECONDS:
                yield b": still here\n\n"
            else:
                continue
            told = time.monotonic()
    except EOFError:
        return
    finally:
        running.feeds.discard(watched)
        call.hub.watchers.leave(watched)


def _told_event(running: Running, event: AnyEvent) -> list[bytes]:
    names = running.state.learner.schema.names if running.state else ()
    match event:
        case Decided():
            told = [("decision", encoder.encode(records.recorded(event, None, names, True)))]
        case Rewarded(_, decision, given):
            told = [("reward", encoder.encode({"decision": decision, "reward": given, "outcome": "rewarded"}))]
        case Expired(_, decisions):
            told = [("reward", encoder.encode(_expired(running, number))) for number in decisions]
        case _:
            told = [("change", b"{}")]
    return [b"event: %s\ndata: %s\n\n" % (name.encode(), data) for name, data in told]


def _expired(running: Running, number: int) -> dict[str, Any]:
    default = running.state.actions.default_reward(number, running.spec.rewards) if running.state else None
    return {"decision": number, "reward": default, "outcome": "dropped" if default is None else "default"}


# --- the service itself -------------------------------------------------------------------------------------


async def healthz(call: Call) -> Health:
    return Health("alive", __version__, [])


async def readyz(call: Call) -> Health:
    hub = call.hub
    waiting = [running.name for running in hub.experiments.values() if running.status == RECOVERING]
    if not hub.ready or waiting:
        what = f"experiments are being recovered: {', '.join(waiting)}" if waiting else "the service is starting"
        raise Problem(503, "not_ready", what, retry_after=1)
    standby = [running.name for running in hub.experiments.values() if running.status != LIVE]
    if standby and len(standby) == len(hub.experiments):
        raise Problem(503, "standby", f"not served here: {', '.join(standby)}", retry_after=1)
    return Health("ready", __version__, standby)


async def metrics(call: Call) -> Raw:
    return Raw(call.metrics.text(), CONTENT_TYPE.encode())
