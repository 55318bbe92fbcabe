"""Request handlers: one coroutine function for each operation of the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET

from releaf._version import __version__
from releaf.service.auth.access_control import client_address
from releaf.service.errors import ApiError, invalid_request
from releaf.service.experiments import decision_export, decision_records, erasure, explanations, series_summary
from releaf.service.experiments.apprentice_mode import Baselines
from releaf.service.experiments.change_records import ANONYMOUS, MAX_ID, Sender
from releaf.service.experiments.decision_messages import decision_answers
from releaf.service.experiments.label_costs import LabelCosts
from releaf.service.experiments.learner_factory import known_policies
from releaf.service.experiments.learner_slot import action_names
from releaf.service.experiments.policy_versions import is_known
from releaf.service.experiments.series_summary import MAX_SERIES_POINTS, SeriesCopy
from releaf.service.experiments.served_experiment import LIVE, RECOVERING, ServedExperiment
from releaf.service.experiments.time_slices import TimeSlice
from releaf.service.http.asgi import RawResponse, find_header
from releaf.service.http.eligible_actions import (
    EligibleActions,
    baselines_of,
    baselines_of_many,
    costs_of,
    costs_of_many,
    eligible_of,
    eligible_of_many,
    label_costs_of,
    label_costs_of_many,
    many_actions_of,
)
from releaf.service.http.endpoint import decode_json, encoder
from releaf.service.http.metrics import CONTENT_TYPE
from releaf.service.http.name_checks import check_experiment_names, check_name
from releaf.service.http.operation import ApiRequest
from releaf.service.http.server_sent_events import open_feed
from releaf.service.many_actions import ManyActions
from releaf.service.messages import (
    AllLearnt,
    Answer,
    Answers,
    Ask,
    ChangePage,
    DiscardedKeys,
    ErasureProof,
    ErrorDetail,
    ExperimentInfo,
    ExperimentList,
    ExplanationInfo,
    Health,
    Learnt,
    LineError,
    PartitionInfo,
    PolicyList,
    RecordedPage,
    RelevanceInfo,
    RewardOf,
    SeriesInfo,
    SummaryInfo,
    Try,
)

ANSWERS_AT_ONCE = 200  # before other requests may run
LINES_AT_ONCE = 50  # after an error among them
_ask_decoder = msgspec.json.Decoder(Ask)
_reward_decoder = msgspec.json.Decoder(RewardOf)


class Named(Protocol):
    """An entry of a list, known by its name."""

    @property
    def name(self) -> str: ...


Entry = TypeVar("Entry", bound=Named)


def _experiment(request: ApiRequest) -> ServedExperiment:
    return request.registry.find(request.path["experiment"])


def _sender(request: ApiRequest) -> Sender:
    return Sender(request.identity.id or ANONYMOUS, request.scope["request_id"])


# --- experiments --------------------------------------------------------------------------------------------


async def list_policies(request: ApiRequest) -> PolicyList:
    return PolicyList(*_page(request, known_policies()))


async def create_experiment(request: ApiRequest) -> ExperimentInfo:
    request.identity.require(request.body.name, "admin")
    check_experiment_names(request.body)
    return (await request.registry.create(request.body, _sender(request))).info()


async def list_experiments(request: ApiRequest) -> ExperimentList:
    experiments = sorted(request.registry.experiments.values(), key=lambda one: one.id)  # in all processes the same
    allowed = [one for one in experiments if request.identity.allows(one.name, "read")]
    page, following = _page(request, allowed)
    return ExperimentList([experiment.info() for experiment in page], following)


def _page(request: ApiRequest, entries: list[Entry]) -> tuple[list[Entry], str | None]:
    """The entries of a page, and the name to pass as ``after`` for the next page; None on the last page."""
    first, limit = 0, len(entries)
    if "after" in request.query:
        after = request.query["after"]
        names = [entry.name for entry in entries]
        if after not in names:
            raise invalid_request(f"after is {after[:200]!r}: expected the name of an entry of this list")
        first = names.index(after) + 1
    if "limit" in request.query:
        limit = _whole_number("limit", request.query["limit"], 1, decision_records.MAX_LISTED)
    page = entries[first : first + limit]
    return page, page[-1].name if first + limit < len(entries) else None


async def get_experiment(request: ApiRequest) -> ExperimentInfo:
    return _experiment(request).info()


async def retire_experiment(request: ApiRequest) -> ExperimentInfo:
    experiment = _experiment(request)
    await request.registry.retire(experiment, _sender(request))
    return experiment.info()


async def _change(request: ApiRequest, change: str, subject: Any, *further: Any, **named: Any) -> ExperimentInfo:
    experiment = _experiment(request)
    await experiment.change(change, subject, *further, sender=_sender(request), **named)
    return experiment.info()


async def add_action(request: ApiRequest) -> ExperimentInfo:
    body = request.body
    check_name("action", body.action)
    return await _change(request, "add_action", body.action, body.features, cost=body.cost)


async def retire_action(request: ApiRequest) -> ExperimentInfo:
    name = request.path["action"]
    known = [action for action in _experiment(request).live().learner.actions if str(action) == name]
    if not known:
        raise ApiError(404, "unknown_action", f"unknown action {name!r}")
    return await _change(request, "remove_action", known[0])


async def set_retention(request: ApiRequest) -> ExperimentInfo:
    return await _change(request, "set_retention", request.body)


# --- shadows ------------------------------------------------------------------------------------------------


async def add_shadow(request: ApiRequest) -> ExperimentInfo:
    experiment = _experiment(request)
    await experiment.add_shadow(request.body, _sender(request))
    return experiment.info()


async def remove_shadow(request: ApiRequest) -> ExperimentInfo:
    return await _change(request, "remove_shadow", request.path["shadow"])


async def promote_shadow(request: ApiRequest) -> ExperimentInfo:
    force = request.query.get("force", "false")
    if force not in ("true", "false"):
        raise invalid_request(f"force is {force[:200]!r}: expected true or false")
    experiment = _experiment(request)
    await experiment.promote(request.path["shadow"], force=force == "true", sender=_sender(request))
    return experiment.info()


# --- decisions and rewards ----------------------------------------------------------------------------------


async def decide(request: ApiRequest) -> Answer | Answers | RawResponse:
    experiment, header_key = _experiment(request), _header_key(request)
    if request.lines is not None:
        return await _decide_lines(request, experiment)
    ask: Ask = request.body
    if (ask.context is UNSET) == (ask.contexts is UNSET):
        raise invalid_request("expected either context, for one decision, or contexts, for many")
    if ask.contexts is UNSET:
        if ask.keys is not None:
            raise invalid_request("keys go with contexts; expected key")
        if ask.subjects is not None:
            raise invalid_request("subjects go with contexts; expected subject")
        one, subjects = eligible_of(ask), None if ask.subject is None else [ask.subject]
        key, many = ask.key or header_key, many_actions_of(ask)
        own = (costs_of(ask), baselines_of(ask), label_costs_of(ask))
        return (await _decide(request, experiment, [ask.context], [key], one, subjects, many, *own))[0]
    _require_no_many_actions(ask)
    if ask.key is not None:
        raise invalid_request("key goes with context; expected keys, one for each context")
    if ask.subject is not None:
        raise invalid_request("subject goes with context; expected subjects, one for each context")
    contexts: list[Any] = ask.contexts
    _limit_batch(request, len(contexts))
    experiment.limit_batch(len(contexts))
    if ask.keys is not None and len(ask.keys) != len(contexts):
        raise invalid_request(f"got {len(ask.keys)} keys for {len(contexts)} contexts: expected one for each")
    if ask.subjects is not None and len(ask.subjects) != len(contexts):
        raise invalid_request(f"got {len(ask.subjects)} subjects for {len(contexts)} contexts: expected one for each")
    keys: list[str | None] = [*ask.keys] if ask.keys is not None else [None] * len(contexts)
    eligible, costs = eligible_of_many(ask, len(contexts)), costs_of_many(ask, len(contexts))
    further = (costs, baselines_of_many(ask, len(contexts)), label_costs_of_many(ask, len(contexts)))
    return Answers(await _decide(request, experiment, contexts, keys, eligible, ask.subjects, None, *further))


def _header_key(request: ApiRequest) -> str | None:
    key = find_header(request.scope, b"idempotency-key")
    if key is not None and not 1 <= len(key) <= 200:
        raise invalid_request(f"the Idempotency-Key header has {len(key)} characters: expected 1 to 200")
    return key


async def _decide(
    request: ApiRequest,
    experiment: ServedExperiment,
    contexts: list[Any],
    keys: list[str | None],
    eligible: EligibleActions | None,
    subjects: Sequence[str | None] | None = None,
    many: ManyActions | None = None,
    costs: Sequence[Any] | None = None,
    baselines: Baselines | None = None,
    label_costs: LabelCosts | None = None,
) -> list[Answer]:
    events = await experiment.decide(contexts, keys, eligible, subjects, many, costs, baselines, label_costs)
    request.note_decisions(experiment.name, events)
    answers, current, state = list[Answer](), TimeSlice(), experiment.live()
    for first in range(0, len(events), ANSWERS_AT_ONCE):
        some = events[first : first + ANSWERS_AT_ONCE]
        answers += decision_answers(some, state, experiment.receipts)
        await current.pause_if_over()
    return answers


def _limit_batch(request: ApiRequest, count: int) -> None:
    limit = request.settings.batch_limit
    if count > limit:
        raise ApiError(413, "too_many", f"{count:,} in one request: expected at most {limit:,}")


async def _decide_lines(request: ApiRequest, experiment: ServedExperiment) -> RawResponse:
    """Decide for each line by itself: an invalid line does not affect the others."""
    lines: list[bytes] = request.lines or []
    _limit_batch(request, len(lines))
    experiment.limit_batch(len(lines))
    asked = [_read_line(_ask_decoder, line, _require_one_context) for line in lines]

    async def decide_some(some: list[Ask]) -> list[Any]:
        contexts, keys = [one.context for one in some], [one.key for one in some]
        sets, subjects = [eligible_of(one) for one in some], [one.subject for one in some]
        eligible = [None if one is None else one[0] for one in sets] if any(sets) else None
        costs = [one.cost for one in some] if any(one.cost is not None for one in some) else None
        people = subjects if any(subjects) else None
        own = [one.baseline for one in some] if any(one.baseline is not None for one in some) else None
        labels = [one.label_cost for one in some]
        return await _decide(request, experiment, contexts, keys, eligible, people, None, costs, own, labels)

    return _encode_lines(await _answer_lines(asked, decide_some))


def _require_one_context(ask: Ask) -> None:
    if ask.context is UNSET or ask.contexts is not UNSET or ask.keys is not None or ask.subjects is not None:
        raise invalid_request("expected a context in each line")
    _require_no_many_actions(ask)
    eligible_of(ask)
    costs_of(ask)
    label_costs_of(ask)
    baselines_of(ask)


def _require_no_many_actions(ask: Ask) -> None:
    if ask.actions is not None or ask.k is not None:
        name = "k" if ask.actions is None else "actions"
        raise invalid_request(f"{name} goes with one context: expected one decision in each request")


def _read_line(decoder: msgspec.json.Decoder[Any], line: bytes, check: Callable[[Any], None]) -> Any:
    """Decode a line; an error becomes the answer to it."""
    try:
        message = decode_json(decoder, line)
        check(message)
        return message
    except ApiError as error:
        return _line_error(error)


def _line_error(error: ApiError) -> LineError:
    return LineError(ErrorDetail(error.status, error.code, error.message))


async def _answer_lines(messages: list[Any], answer: Callable[[list[Any]], Awaitable[list[Any]]]) -> list[Any]:
    """Answer all valid lines in one request, which is faster; in small groups if that raises an error."""
    valid = [index for index, message in enumerate(messages) if not isinstance(message, LineError)]
    asked = [messages[index] for index in valid]
    answered = await _answer_together(asked, answer)
    if answered is None:
        answered = []
        for first in range(0, len(asked), LINES_AT_ONCE):
            group = asked[first : first + LINES_AT_ONCE]
            together = await _answer_together(group, answer)
            answered += together or await asyncio.gather(*(_answer_line(message, answer) for message in group))
    return _merge(messages, valid, answered)


async def _answer_together(
    messages: list[Any], answer: Callable[[list[Any]], Awaitable[list[Any]]]
) -> list[Any] | None:
    """The answers to lines in one request; None if one of them is invalid."""
    try:
        return await answer(messages) if messages else []
    except ApiError as error:
        if error.status >= 500:
            raise
        return None


def _merge(messages: list[Any], valid: list[int], answered: list[Any]) -> list[Any]:
    """The answers to all lines: those of the valid ones, at their places, and the errors of the others."""
    answers = list(messages)
    for index, one in zip(valid, answered, strict=True):
        answers[index] = _line_error(one) if isinstance(one, ApiError) else one
    return answers


async def _answer_line(message: Any, answer: Callable[[list[Any]], Awaitable[list[Any]]]) -> Any:
    try:
        return (await answer([message]))[0]
    except ApiError as error:
        return _line_error(error)


def _encode_lines(answers: list[Any]) -> RawResponse:
    return RawResponse(encoder.encode_lines(answers), b"application/x-ndjson")


async def reward(request: ApiRequest) -> Learnt | AllLearnt | RawResponse:
    experiment = _experiment(request)
    if request.lines is not None:
        _limit_batch(request, len(request.lines))
        rewards = [_read_line(_reward_decoder, line, lambda one: None) for line in request.lines]
        valid = [index for index, one in enumerate(rewards) if not isinstance(one, LineError)]
        answered = await request.reward_each(experiment, [rewards[index] for index in valid])
        return _encode_lines(_merge(rewards, valid, answered))
    body = request.body
    if (body.rewards is UNSET) == (body.decision is UNSET and body.reward is UNSET):
        raise invalid_request("expected either decision and reward, or rewards, for many")
    if body.rewards is not UNSET and body.receipt is not None:
        raise invalid_request("receipt goes with decision and reward; expected one in each of the rewards")
    if body.rewards is not UNSET:
        _limit_batch(request, len(body.rewards))
        return AllLearnt(await request.reward(experiment, body.rewards))
    if body.decision is UNSET or body.reward is UNSET:
        raise invalid_request("expected both decision and reward")
    one = RewardOf(decision=body.decision, reward=body.reward, receipt=body.receipt)
    (learnt,) = await request.reward(experiment, [one])
    return learnt


async def observe(request: ApiRequest) -> Learnt:
    experiment = _experiment(request)
    request.identity.require(experiment.name, "decide")
    return await experiment.observe(request.body)


async def discard(request: ApiRequest) -> DiscardedKeys:
    _limit_batch(request, len(request.body.keys))
    event = await _experiment(request).discard(request.body.keys)
    dropped = sum(number > 0 for number in event.decisions)
    return DiscardedKeys(dropped, len(event.keys) - dropped)


async def preview(request: ApiRequest) -> ExplanationInfo:
    ask: Try = request.body
    state, many = _experiment(request).live(), many_actions_of(ask)
    return await explanations.preview(state, ask.context, ask.eligible, ask.cost, ask.label_cost, many)


async def erase_subject(request: ApiRequest) -> ErasureProof:
    return await erasure.erase_subject(_experiment(request), request.body.subject, _sender(request))


# --- explanations, records, feed and model ------------------------------------------------------------------


async def get_relevance(request: ApiRequest) -> RelevanceInfo:
    return explanations.relevance(_experiment(request).live())


async def get_partition(request: ApiRequest) -> PartitionInfo:
    return explanations.partition(_experiment(request).live(), request.path["feature"])


async def explain(request: ApiRequest) -> ExplanationInfo:
    experiment = _experiment(request)
    event = await experiment.read_decision(_whole_number("decision", request.path["decision"], 1, 2**53))
    return await explanations.explain_decision(experiment.live(), event)


def _whole_number(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise invalid_request(f"{name} is {text[:40]!r}: expected a whole number from {least} to {most:,}")
    return int(text)


async def list_decisions(request: ApiRequest) -> RecordedPage:
    query = request.query
    limit = _whole_number("limit", query.get("limit", "50"), 1, decision_records.MAX_LISTED)
    before = _whole_number("before", query["before"], 1, 2**53) if "before" in query else None
    matches = decision_records.make_filter(
        query.get("action"), query.get("explored"), query.get("outcome"), query.get("since"), query.get("until")
    )
    experiment = _experiment(request)
    if matches.is_open():
        return await decision_records.list_decisions(experiment, limit, before, matches)
    async with request.registry.scans.turn():
        return await decision_records.list_decisions(experiment, limit, before, matches)


async def export_decisions(request: ApiRequest) -> RawResponse:
    experiment, file_format = _experiment(request), request.query.get("format", "csv")
    experiment.live()
    if file_format not in decision_export.FORMATS:
        raise invalid_request(f"format is {file_format!r}: expected one of {', '.join(decision_export.FORMATS)}")
    content = decision_export.export_decisions(experiment, request.settings.store, file_format)
    content = request.registry.exports.start(content, request.identity.id or client_address(request.scope))
    return _attachment(content, decision_export.FORMATS[file_format], f"{experiment.name}.{file_format}")


def _attachment(content: bytes | AsyncIterator[bytes], media_type: str, name: str) -> RawResponse:
    disposition = f'attachment; filename="{name}"'.encode()
    return RawResponse(content, media_type.encode(), [(b"content-disposition", disposition)])


async def get_series(request: ApiRequest) -> SeriesInfo:
    copy, (since, until) = _series(request), _time_range(request)
    limit = _whole_number("limit", request.query.get("limit", str(MAX_SERIES_POINTS)), 1, MAX_SERIES_POINTS)
    return SeriesInfo(await asyncio.to_thread(series_summary.chart_points, copy, since, until, limit))


async def get_summary(request: ApiRequest) -> SummaryInfo:
    copy, (since, until) = _series(request), _time_range(request)
    actions = action_names(_experiment(request).live().learner)
    if not actions:
        raise ApiError(409, "conflict", "the experiment has no actions yet: decide with actions in the request first")
    name = request.query.get("baseline", str(actions[0]))
    baseline = next((action for action in actions if str(action) == name), None)
    if baseline is None:
        known = ", ".join(map(str, actions[:20]))
        raise invalid_request(f"baseline is {name[:200]!r}: expected an action of the experiment, such as {known}")
    return await asyncio.to_thread(series_summary.summarise, copy, since, until, baseline, actions)


def _series(request: ApiRequest) -> SeriesCopy:
    state = _experiment(request).live()
    return SeriesCopy.of(state.series, state.learner.reward_range, state.cohorts.unsettled_from)


def _time_range(request: ApiRequest) -> tuple[float | None, float | None]:
    since, until = (decision_records.parse_time(name, request.query.get(name)) for name in ("since", "until"))
    if since is not None and until is not None and until <= since:
        raise invalid_request(f"until is {request.query['until']!r}: expected a time after since")
    return since, until


async def get_model(request: ApiRequest) -> RawResponse:
    experiment = _experiment(request)
    content = await asyncio.to_thread(experiment.exportable().learner.freeze())
    return _attachment(content, "application/octet-stream", f"{experiment.name}.releaf")


async def get_policy(request: ApiRequest) -> RawResponse:
    version = await _experiment(request).policy_versions.latest()
    headers = [(b"etag", version.etag.encode()), (b"cache-control", b"private, no-cache")]
    not_modified = is_known(version.etag, find_header(request.scope, b"if-none-match"))
    return RawResponse(version.content, b"application/json", headers, not_modified)


async def feed(request: ApiRequest) -> RawResponse:
    return open_feed(request, _experiment(request))


# --- audit log ----------------------------------------------------------------------------------------------


async def list_changes(request: ApiRequest) -> ChangePage:
    query, experiment = request.query, request.query.get("experiment")
    request.identity.require("*" if experiment is None else experiment, "admin")
    if experiment is not None:
        request.registry.find(experiment)
    limit = _whole_number("limit", query.get("limit", "50"), 1, decision_records.MAX_LISTED)
    before = _whole_number("before", query.get("before", str(MAX_ID)), 1, MAX_ID)
    return await request.registry.list_changes(experiment, before, limit)


# --- the service itself -------------------------------------------------------------------------------------


async def healthz(request: ApiRequest) -> Health:
    return Health("alive", __version__, [])


async def readyz(request: ApiRequest) -> Health:
    registry = request.registry
    if registry.draining:
        raise ApiError(503, "stopping", "the service is about to stop: send requests to another process", retry_after=1)
    recovering = [one.progress() for one in registry.experiments.values() if one.status == RECOVERING]
    if not registry.ready or recovering:
        what = f"experiments are recovering: {', '.join(recovering)}" if recovering else "the service is starting"
        raise ApiError(503, "not_ready", what, retry_after=1)
    if (silence := registry.silence()) > request.settings.write_timeout:
        raise ApiError(503, "not_ready", f"the store has not answered for {silence:.0f} s", retry_after=1)
    standby = [one.name for one in registry.experiments.values() if one.status != LIVE]
    if standby and len(standby) == len(registry.experiments):
        raise ApiError(503, "standby", f"this process serves none of: {', '.join(standby)}", retry_after=1)
    return Health("ready", __version__, standby)


async def metrics(request: ApiRequest) -> RawResponse:
    request.identity.require_anywhere("read")
    text = request.metrics.text(lambda experiment: request.identity.allows(experiment, "read"))
    return RawResponse(text, CONTENT_TYPE.encode())
