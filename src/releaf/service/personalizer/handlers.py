"""Handlers of Personalizer's API, thin over what experiments do."""

from __future__ import annotations

import uuid

from releaf.service.errors import ApiError, invalid_request
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.http.name_checks import check_name
from releaf.service.http.operation import ApiRequest
from releaf.service.log.events import Decided
from releaf.service.many_actions import ManyActions
from releaf.service.messages import Baseline, RewardOf
from releaf.service.personalizer.hashed_features import hash_features
from releaf.service.personalizer.messages import MAX_ID, RankableAction, RankedAction, RankRequest, RankResponse
from releaf.service.personalizer.ranking import make_ranking

VERSIONS = ("v1.0", "v1.1-preview.1", "v1.1-preview.2", "v1.1-preview.3")  # which are alike in these operations


async def rank(request: ApiRequest) -> RankResponse:
    ask: RankRequest = request.body
    experiment = find_experiment(request)
    width, action_width = hash_widths(experiment)
    excluded = set(ask.excluded_actions or ())
    eligible = [action for action in ask.actions if action.id not in excluded]
    check_actions(ask.actions, eligible)
    event_id = ask.event_id or str(uuid.uuid4())
    check_event_id(event_id)
    many = ManyActions(
        {action.id: hash_features(action.features, action_width) for action in eligible},
        is_ranked=True,
        is_deferred=bool(ask.defer_activation),
    )
    context = hash_features(ask.context_features or (), width)
    baselines = [Baseline(action=eligible[0].id)] if experiment.spec.apprentice else None
    (event,) = await experiment.decide([context], [event_id], many=many, baselines=baselines)
    request.note_decisions(experiment.name, [event])
    return RankResponse(_ranking(event, ask.actions, excluded), event_id, str(event.action))


def _ranking(event: Decided, actions: list[RankableAction], excluded: set[str]) -> list[RankedAction]:
    names = [str(name) for name in event.eligible or ()]
    chances = event.many.chances if event.many is not None else None
    if chances is None:  # the application decided, and an apprentice watched
        chances = tuple(float(name == event.action) for name in names)
    return make_ranking(
        [action.id for action in actions],
        excluded,
        str(event.action),
        dict(zip(names, event.estimates or (), strict=False)),
        dict(zip(names, chances, strict=True)),
    )


async def reward_event(request: ApiRequest) -> None:
    """Learn the first reward of an event; further ones, and those that come too late, are accepted and ignored."""
    experiment = find_experiment(request)
    decision = find_decision(experiment, request.path["event"])
    state = experiment.live()
    if not state.is_pending(decision) or state.deferred.get(decision) is not None:
        await experiment.flush()
        return
    one = RewardOf(decision=decision, reward=request.body.value)
    await request.reward(experiment, [one], needs_receipts=False)  # whoever has the id of the event may reward it


async def activate_event(request: ApiRequest) -> None:
    """Let the reward of a deferred event count."""
    experiment = find_experiment(request)
    decision = find_decision(experiment, request.path["event"])
    if decision in experiment.live().deferred:
        await experiment.change("activate", decision)
    else:
        await experiment.flush()


def find_experiment(request: ApiRequest) -> ServedExperiment:
    """The experiment of a request, whose version of the API is known."""
    version = request.path["version"]
    if version not in VERSIONS:
        raise ApiError(404, "not_found", f"unknown version {version[:50]!r}: expected one of {', '.join(VERSIONS)}")
    return request.registry.find(request.path["experiment"])


def hash_widths(experiment: ServedExperiment) -> tuple[int, int]:
    """Numbers of columns for the features of the context, and of an action."""
    spec = experiment.spec
    if not isinstance(spec.features, int) or not isinstance(spec.action_features, int):
        raise invalid_request(
            f"experiment {experiment.name!r} can't rank for Personalizer's API: expected one with a count of features "
            "and of action_features, into which those of requests are hashed"
        )
    return spec.features, spec.action_features


def check_actions(actions: list[RankableAction], eligible: list[RankableAction]) -> None:
    """Raise an error unless the actions have different names that are allowed, and one at least is not excluded."""
    for action in actions:
        check_name("action", action.id, MAX_ID)
    names = [action.id for action in actions]
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise invalid_request(f"actions has the id {twice!r} twice: expected different ids")
    if not eligible:
        raise invalid_request("excludedActions has all actions: expected one at least that may be chosen")


def check_event_id(event_id: str) -> None:
    if not event_id.isprintable():
        raise invalid_request(f"eventId is {event_id!r}: expected printable characters")


def find_decision(experiment: ServedExperiment, event_id: str) -> int:
    """The decision of an event; an error with status 404 if there is none."""
    known = experiment.live().keys.known([event_id])
    if event_id not in known:
        raise ApiError(404, "unknown_event", f"unknown event {event_id!r}: expected the eventId of an earlier Rank")
    return known[event_id]
