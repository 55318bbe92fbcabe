"""An operation of the API: method, path, handler, messages and scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from types import NoneType
from typing import Any, get_args, get_type_hints

from releaf.service.auth.access_control import AccessControl
from releaf.service.auth.api_keys import Identity
from releaf.service.errors import AlreadyRewarded, ApiError
from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.http.asgi import RawResponse, Scope
from releaf.service.http.metrics import Metrics
from releaf.service.http.problems import PROBLEM, ErrorFormat
from releaf.service.http.telemetry import MadeDecision, TracedRequest
from releaf.service.messages import Learnt, RewardOf
from releaf.service.settings import ServiceSettings


@dataclass(slots=True)
class ApiRequest:
    """A request to an operation, with what its handler needs."""

    registry: ExperimentRegistry
    settings: ServiceSettings
    metrics: Metrics
    identity: Identity
    scope: Scope
    path: Mapping[str, str]
    access: AccessControl
    body: Any = None
    lines: list[bytes] | None = None  # of newline-delimited JSON
    query: Mapping[str, str] = field(default_factory=dict)
    traced: TracedRequest | None = None  # with OpenTelemetry

    def note_decisions(self, experiment: str, made: Sequence[MadeDecision]) -> None:
        """Tell metrics and the span of decisions."""
        self.metrics.recent_decisions(experiment).add([event.explored for event in made])
        if self.traced is not None:
            self.traced.add_decisions(experiment, made)

    async def reward(
        self, experiment: ServedExperiment, given: Sequence[RewardOf], *, needs_receipts: bool = True
    ) -> list[Learnt]:
        """Learn rewards, and tell the span of them. A key with the scope ``admin`` needs no receipts."""
        needs_receipts = needs_receipts and not self.identity.is_admin_key(experiment.name)
        try:
            results = await experiment.reward(given, needs_receipts=needs_receipts)
        except AlreadyRewarded as error:
            raise self._readable(experiment, error) from None
        if self.traced is not None:
            self.traced.add_rewards(experiment.name, given, results)
        return results

    async def reward_each(self, experiment: ServedExperiment, given: Sequence[RewardOf]) -> list[Learnt | ApiError]:
        """Learn those rewards that are valid, and tell the span of them; the others are answered with their errors."""
        needs_receipts = not self.identity.is_admin_key(experiment.name)
        results = await experiment.reward_each(given, needs_receipts=needs_receipts)
        if self.traced is not None:
            self.traced.add_rewards(experiment.name, given, [one for one in results if isinstance(one, Learnt)])
        return [self._readable(experiment, one) if isinstance(one, AlreadyRewarded) else one for one in results]

    def _readable(self, experiment: ServedExperiment, error: AlreadyRewarded) -> ApiError:
        """The error as the sender may read it."""
        return error if self.identity.allows(experiment.name, "read") else error.without_reward()


Handler = Callable[[ApiRequest], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter or a header of a request, for the OpenAPI description."""

    name: str
    about: str
    schema: Mapping[str, Any]
    required: bool = False


@dataclass(frozen=True)
class Operation:
    """One operation of the API.

    Attributes
    ----------
    method, path
        Of its requests; the scope applies to the ``{experiment}`` in the path. Without one, the handler checks it.
    handler
        Coroutine function that answers a request; the type of its result is that of the response message.
    body
        Type of the request message.
    media
        Media types of a response that is not JSON.
    scope
        Scope that the key needs; "any" for every valid key, "none" if no key is needed.
    status
        Of the response.
    lines
        Whether the operation also accepts newline-delimited JSON.
    query, headers
        Parameters that the operation reads, besides those in the path and the headers of every request.
    conflicts
        Error statuses that depend on the state of the experiment.
    is_unbounded
        Whether it may take longer than the write time-out, since it may have to compile.
    has_etag
        Whether the response has an entity tag, and status 304 if the request names it.
    error_format
        How its error responses look; the same for all operations of a path.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    _: KW_ONLY
    body: Any = None
    media: tuple[str, ...] = ()
    scope: str = "read"
    status: int = 200
    lines: bool = False
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    conflicts: tuple[int, ...] = ()
    is_unbounded: bool = False
    has_etag: bool = False
    error_format: ErrorFormat = PROBLEM

    @property
    def name(self) -> str:
        """Name in metrics, and ``operationId`` in the OpenAPI description."""
        return self.handler.__name__

    @cached_property
    def answers(self) -> tuple[Any, ...]:
        """Types of the response messages; none if the response is not JSON."""
        result = get_type_hints(self.handler)["return"]
        return tuple(kind for kind in get_args(result) or (result,) if kind not in (RawResponse, NoneType))

    @property
    def errors(self) -> set[int]:
        """Error statuses, besides those of every operation."""
        missing = {404} if "{experiment}" in self.path else set()
        return missing | ({408, 413, 415} if self.body else set()) | set(self.conflicts)
