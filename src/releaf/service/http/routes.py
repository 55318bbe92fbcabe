"""Routes: the table of all operations, from which the router and the OpenAPI description are made."""

from __future__ import annotations

from releaf.service.experiments.decision_export import FORMATS
from releaf.service.experiments.decision_records import MAX_LISTED, OUTCOMES
from releaf.service.experiments.series_summary import MAX_SERIES_POINTS
from releaf.service.http import handlers
from releaf.service.http.operation import Operation, Parameter
from releaf.service.messages import (
    Ask,
    Discarding,
    Erasure,
    NewAction,
    NewExperiment,
    NewShadow,
    Observation,
    RetentionRules,
    Rewarding,
    Try,
)

_ALL = "/v1/experiments"
_ONE = "/v1/experiments/{experiment}"
_TIME = {"type": "string", "format": "date-time"}
_NUMBER = {"type": "integer", "minimum": 1, "maximum": 2**53}
_LIST_PARAMETERS = (
    Parameter("limit", "decisions per page", {"type": "integer", "minimum": 1, "maximum": MAX_LISTED, "default": 50}),
    Parameter("before", "only decisions with a lower number", _NUMBER),
    Parameter("action", "only those that took this action", {"type": "string"}),
    Parameter("explored", "only explorations, or only others", {"type": "string", "enum": ["true", "false"]}),
    Parameter("outcome", "only those with this outcome", {"type": "string", "enum": list(OUTCOMES)}),
    Parameter("since", "only those made at this time or later", _TIME),
    Parameter("until", "only those made before this time", _TIME),
)
_FORMAT = Parameter("format", "of the file", {"type": "string", "enum": list(FORMATS), "default": "csv"})

_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_PAGE_PARAMETERS = (
    Parameter("limit", "entries per page; all by default", {"type": "integer", "minimum": 1, "maximum": MAX_LISTED}),
    Parameter("after", "only entries after the one of this name: the `next` of the page before", _NAME),
)
_CHANGE_PARAMETERS = (
    Parameter("limit", "changes per page", {"type": "integer", "minimum": 1, "maximum": MAX_LISTED, "default": 50}),
    Parameter("before", "only changes with a lower id: the `next` of the page before", _NUMBER),
    Parameter("experiment", "only changes of this experiment", _NAME),
)
_RANGE_PARAMETERS = (
    Parameter("since", "only decisions made at this time or later, up to the size of a point", _TIME),
    Parameter("until", "only decisions made before this time, up to the size of a point", _TIME),
)
_SERIES_PARAMETERS = (
    *_RANGE_PARAMETERS,
    Parameter(
        "limit",
        "largest number of points, which are merged to it",
        {"type": "integer", "minimum": 1, "maximum": MAX_SERIES_POINTS, "default": MAX_SERIES_POINTS},
    ),
)
_SUMMARY_PARAMETERS = (
    *_RANGE_PARAMETERS,
    Parameter("baseline", "action to compare with; by default the first of the experiment", _NAME),
)
_KEY_HEADER = Parameter(
    "Idempotency-Key",
    "key of a single decision whose body has none: the same key gives the same decision again; ignored for many",
    _NAME,
)

_ETAG_HEADER = Parameter(
    "If-None-Match", "the `ETag` of the policy that the client has: 304 if it is still the latest", {"type": "string"}
)

_FORCE = Parameter(
    "force",
    "whether to promote a shadow that is not shown to earn more than the policy in charge, or an apprentice",
    {"type": "string", "enum": ["true", "false"], "default": "false"},
)

# fmt: off
OPERATIONS = (  # the most frequent first, because the router tries them in order
    Operation("POST", f"{_ONE}/decide", handlers.decide, "Decide for a context, or for many",
              body=Ask, scope="decide", lines=True, headers=(_KEY_HEADER,), conflicts=(409,)),
    Operation("POST", f"{_ONE}/reward", handlers.reward, "Learn the reward of a decision, or of many",
              body=Rewarding, scope="reward", lines=True, conflicts=(409, 410)),
    Operation("POST", f"{_ONE}/observe", handlers.observe,
              "Learn the reward of a decision that the application made by itself, such as a default",
              body=Observation, scope="reward", conflicts=(409,)),
    Operation("POST", f"{_ONE}/discard", handlers.discard,
              "Drop decisions by their idempotency keys: their answers came too late, and a default was taken",
              body=Discarding, scope="decide"),
    Operation("GET", "/v1/policies", handlers.list_policies, "The policies that an experiment can use",
              scope="any", query=_PAGE_PARAMETERS),
    Operation("POST", _ALL, handlers.create_experiment, "Create an experiment",
              body=NewExperiment, scope="admin", status=201, conflicts=(409,), is_unbounded=True),
    Operation("GET", _ALL, handlers.list_experiments, "All experiments that the key may read, in order of creation",
              scope="any", query=_PAGE_PARAMETERS),
    Operation("GET", _ONE, handlers.get_experiment, "An experiment and its status"),
    Operation("DELETE", _ONE, handlers.retire_experiment, "Retire an experiment: no more decisions; all stays readable",
              scope="admin"),
    Operation("POST", f"{_ONE}/preview", handlers.preview, "Preview a decision and its explanation, without effect",
              body=Try),
    Operation("POST", f"{_ONE}/actions", handlers.add_action, "Add an action while running",
              body=NewAction, scope="admin", conflicts=(409,)),
    Operation("DELETE", f"{_ONE}/actions/{{action:path}}", handlers.retire_action,
              "Retire an action, and delete what was learnt about it", scope="admin", conflicts=(409,)),
    Operation("PUT", f"{_ONE}/retention", handlers.set_retention,
              "Change for how long the log keeps contexts and decisions", body=RetentionRules, scope="admin"),
    Operation("POST", f"{_ONE}/erase", handlers.erase_subject,
              "Erase all decisions of a subject, with a proof of what was removed",
              body=Erasure, scope="admin", conflicts=(409,), is_unbounded=True),
    Operation("GET", f"{_ONE}/relevance", handlers.get_relevance, "How relevant each feature is to each action"),
    Operation("GET", f"{_ONE}/partition/{{feature:path}}", handlers.get_partition,
              "How a feature's values are divided, and what actions earned where"),
    Operation("GET", f"{_ONE}/explain/{{decision}}", handlers.explain, "Why a decision was made"),
    Operation("GET", f"{_ONE}/decisions", handlers.list_decisions, "Recorded decisions, the latest first, page by page",
              query=_LIST_PARAMETERS),
    Operation("GET", f"{_ONE}/export", handlers.export_decisions, "The whole log of decisions as a file",
              media=tuple(FORMATS.values()), query=(_FORMAT,)),
    Operation("GET", f"{_ONE}/series", handlers.get_series, "Exploration, rewards and actions over time",
              query=_SERIES_PARAMETERS),
    Operation("GET", f"{_ONE}/summary", handlers.get_summary,
              "Share, mean reward and lift of each action in a range of time, regret, and changes on the time axis",
              query=_SUMMARY_PARAMETERS),
    Operation("GET", f"{_ONE}/feed", handlers.feed, "Decisions and rewards as they happen, as server-sent events",
              media=("text/event-stream",)),
    Operation("GET", f"{_ONE}/model", handlers.get_model, "The learner in charge, as a file for releaf.load",
              media=("application/octet-stream",)),
    Operation("GET", f"{_ONE}/policy", handlers.get_policy,
              "The policy in charge as it is now, frozen: a file for evaluators at edges, in browsers, on phones",
              media=("application/json",), headers=(_ETAG_HEADER,), conflicts=(409,), has_etag=True),
    Operation("POST", f"{_ONE}/shadows", handlers.add_shadow,
              "Add a shadow: a policy that decides on the same contexts, without effect",
              body=NewShadow, scope="admin", conflicts=(409,), is_unbounded=True),
    Operation("DELETE", f"{_ONE}/shadows/{{shadow}}", handlers.remove_shadow, "Remove a shadow", scope="admin"),
    Operation("POST", f"{_ONE}/shadows/{{shadow}}/promote", handlers.promote_shadow,
              "Put a shadow in charge; the former policy becomes the shadow “former”. Or let an apprentice decide",
              scope="admin", query=(_FORCE,), conflicts=(409,)),
    Operation("GET", "/v1/audit", handlers.list_changes,
              "The audit log: changes of all experiments, or of one, of keys and settings, the latest first",
              scope="admin", query=_CHANGE_PARAMETERS, conflicts=(404,)),
    Operation("GET", "/healthz", handlers.healthz, "Liveness probe", scope="none"),
    Operation("GET", "/readyz", handlers.readyz, "Readiness probe", scope="none"),
    Operation("GET", "/metrics", handlers.metrics, "Metrics for Prometheus, of the experiments that the key may read",
              media=("text/plain",)),
)
