"""Messages on the erasure of a subject."""

from __future__ import annotations

from msgspec import Struct

from releaf.service.messages.fields import RequestMessage, Subject


class Erasure(RequestMessage):
    """The subject whose decisions to erase, as given when they were made."""

    subject: Subject


class ErasureProof(Struct):
    """What an erasure removed, what it searched, and what may still hold the subject's decisions.

    Numbers are 0 if nothing was left to erase. ``subject`` is the keyed hash that stood for the subject in the log, and
    stands for it in the audit log. ``decisions`` of the subject are gone with their contexts and idempotency keys, and
    ``rewards`` with them; ``pending`` of them waited for a reward. ``learner_rows`` are their contexts in samples of
    learners, and in learners' pending decisions.

    All ``searched_pages`` of the log up to event ``searched_events`` were searched, and again after the erasure, which
    found ``found_after`` decisions: 0. The only ``snapshots`` left are those after these events, all made after the
    erasure. ``backups_before``: backups whose manifest is of an earlier time hold the decisions, if it is not earlier
    than ``backups_since``, the time of the first decision. ``set_aside_pages`` of a damaged log were not searched.
    ``kept`` tells in words what stays.
    """

    experiment: str
    subject: str
    at: str
    decisions: int
    rewards: int
    pending: int
    learner_rows: int
    redacted_pages: int
    searched_pages: int
    searched_events: int
    found_after: int
    snapshots: list[int]
    set_aside_pages: int
    backups_since: str | None
    backups_before: str | None
    kept: list[str]
