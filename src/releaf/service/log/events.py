"""Events of an experiment's log. A page of the log has the events of one group commit, as MessagePack.

A decision event has the answer, not only the request: its action and probability. So readers of the log need no learner
to know what was done, and a replay that chooses another action is detected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from releaf.service.many_actions import ManyActions
from releaf.service.messages import PolicySpec, RetentionRules

ExperimentAction = str | int  # name of an action: text or an integer, as JSON has it
EligibleActions = Sequence[Sequence[ExperimentAction] | None]  # of each context; None for all actions
Reward = float | list[float] | dict[str, float]  # a mapping from actions of a slate


class LogEvent(Struct, array_like=True, gc=False):  # never part of a reference cycle
    """Base of all events. ``at``: seconds since 1970, never less than that of the previous event."""

    at: float


class Decided(LogEvent, tag=1):
    """The learner in charge chose an action for a context. ``shadows``: the choices of the shadows.

    ``eligible``: the actions that could be chosen; None where all could, as in logs of earlier versions. Once actions
    come with requests, it is never None. Estimates are those of all actions, or of the eligible ones.

    ``costs``: what each action costs, where costs came with the request. ``cost``: that of the action, where costs
    matter. ``label_cost``: what the reward costs to find out, where that came with the request.
    """

    number: int
    context: list[Any]
    action: ExperimentAction
    probability: float | None
    explored: bool
    wants_reward: bool
    estimates: tuple[float, ...] | None
    relevant: tuple[tuple[int, ...] | None, ...] | None
    key: str | None
    shadows: dict[str, ExperimentAction] | None
    eligible: tuple[ExperimentAction, ...] | None = None
    subject: str | None = None  # a keyed hash of it, never itself
    context_hash: str | None = None  # in place of a context that retention hashed
    many: ManyActions | None = None
    costs: tuple[float, ...] | None = None
    cost: float | None = None
    group: str | None = None  # "control" or "learner", where a share of decisions belongs to control
    label_cost: float | None = None
    observed: bool = False  # the application made the decision, and reported it with its reward

    @classmethod
    def of(
        cls,
        at: float,
        number: int,
        context: list[Any],
        choice: Any,
        key: str | None,
        shadows: Any,
        subject: str | None = None,
        many: ManyActions | None = None,
        everyone: tuple[Any, ...] | None = None,
        costs: tuple[float, ...] | None = None,
        label_cost: float | None = None,
    ) -> Decided:
        """The event of a learner's decision; ``everyone`` is eligible where the decision names nobody."""
        chance, explored, wanted = choice.probability, choice.explored, choice.wants_reward
        answer = (choice.action, chance, explored, wanted, choice.estimates, choice.relevant)
        eligible = choice.eligible if choice.eligible is not None else everyone
        if many is not None:
            chances = choice.probabilities if many.is_ranked else None
            many = msgspec.structs.replace(
                many, slate=choice.slate, probabilities=choice.slate_probabilities, chances=chances
            )
        return cls(
            *(at, number, context, *answer, key, shadows, eligible, subject, None, many),
            *(costs, choice.cost, choice.group, label_cost),
        )


class Rewarded(LogEvent, tag=2):
    """A client sent the reward of a decision."""

    decision: int
    reward: Reward


class Expired(LogEvent, tag=3):
    """The deadline of these decisions passed without a reward; ``deferred`` ones were never activated."""

    decisions: list[int]
    deferred: list[int] = []


class ActionAdded(LogEvent, tag=4):
    """The experiment has one more action from now on, perhaps with features of its own, or a fixed cost."""

    action: ExperimentAction
    features: Any = None
    cost: float | None = None


class ActionRemoved(LogEvent, tag=5):
    """The experiment no longer takes an action."""

    action: ExperimentAction


class ShadowAdded(LogEvent, tag=6):
    """A shadow decides on the same contexts from now on; ``learner`` is its initial state."""

    name: str
    policy: PolicySpec
    learner: bytes


class ShadowRemoved(LogEvent, tag=7):
    """A shadow was removed."""

    name: str


class Promoted(LogEvent, tag=8):
    """A shadow is in charge from now on; the policy that was in charge becomes a shadow."""

    name: str


class Retired(LogEvent, tag=9):
    """The experiment makes no more decisions."""


class NumbersSkipped(LogEvent, tag=10):
    """The end of the log was damaged, or the store restored: decision numbers up to this one are not used again.

    ``receipt_part``: a random part of the receipts of all later decisions; empty in logs of earlier versions.
    """

    decision: int
    receipt_part: str = ""


class RetentionSet(LogEvent, tag=11):
    """Contexts and decisions are kept for so long from now on."""

    retention: RetentionRules


class Redacted(LogEvent, tag=12):
    """Contexts and decisions before these times are dropped from the pages; None where all are kept.

    ``last_decision``: the latest of the decisions that are dropped, whose idempotency keys go too.
    """

    contexts_before: float | None
    decisions_before: float | None
    last_decision: int = 0


class Erased(LogEvent, tag=13):
    """These decisions were of a subject that is erased: nothing but their numbers stays.

    Models that were fitted to their contexts stay in use until `ErasureFinished`.
    """

    decisions: list[int]


class Activated(LogEvent, tag=17):
    """The action of a deferred decision was used, so that its reward counts."""

    decision: int


class ErasureFinished(LogEvent, tag=16):
    """Learners no longer use models that were fitted to the contexts of erased decisions."""


class Discarded(LogEvent, tag=18):
    """Clients took a default instead of the decisions of these idempotency keys.

    ``decisions`` has the number of each that was pending, and 0 for a key whose request has not come.
    """

    keys: list[str]
    decisions: list[int]


AnyEvent = (
    Decided
    | Rewarded
    | Expired
    | ActionAdded
    | ActionRemoved
    | ShadowAdded
    | ShadowRemoved
    | Promoted
    | Retired
    | NumbersSkipped
    | RetentionSet
    | Redacted
    | Erased
    | ErasureFinished
    | Activated
    | Discarded
)
REDACTED = b"\xc1"  # the one byte that MessagePack never uses: the body of a redacted page begins with it
# What a redacted page has lost: decisions of erased subjects; or all its contexts, whose hashes it may have; or all its
# decisions.
ERASED, HASHED, CONTEXTS, DECISIONS = b"E", b"H", b"C", b"D"
CHECKSUM_BYTES = 16
REDACTED_HEADER = len(REDACTED) + 1 + CHECKSUM_BYTES
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[AnyEvent])


def encode_page(events: list[AnyEvent]) -> bytes:
    return _encoder.encode(events)


def encode_redacted(events: list[AnyEvent], level: bytes, before: bytes, checksum: bytes) -> bytes:
    """The body of a redacted page: a mark, a level, a checksum of its own, and the events that are left.

    Parameters
    ----------
    level
        What the page has lost: ERASED, HASHED, CONTEXTS or DECISIONS.
    before, checksum
        Of the previous page, and of this page's original body, which the chain goes on with.
    """
    content = encode_page(events)
    return REDACTED + level + redaction_checksum(level, before, checksum, content) + content


def redaction_checksum(level: bytes, before: bytes, checksum: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(REDACTED + level + before + checksum + content, digest_size=CHECKSUM_BYTES).digest()


def is_redacted(body: bytes) -> bool:
    return body.startswith(REDACTED)


def redaction_level(body: bytes) -> bytes:
    """What a redacted page has lost; empty for a page that is not redacted."""
    return body[len(REDACTED) : len(REDACTED) + 1] if is_redacted(body) else b""


def is_redaction_sound(body: bytes, before: bytes, checksum: bytes) -> bool:
    """Whether a redacted body has the checksum of its own that belongs at this place of the chain."""
    start = len(REDACTED) + 1
    content = body[REDACTED_HEADER:]
    return body[start:REDACTED_HEADER] == redaction_checksum(redaction_level(body), before, checksum, content)


def decode_page(body: bytes) -> list[AnyEvent]:
    """Deserialize the events of a page; a ``ValueError`` if the body has none."""
    try:
        return _decoder.decode(body[REDACTED_HEADER:] if is_redacted(body) else body)
    except msgspec.DecodeError as error:
        raise ValueError(f"it holds no events: {error}") from None
