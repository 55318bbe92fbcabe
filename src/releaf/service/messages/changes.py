"""Messages of the audit log."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class ChangeInfo(Struct):
    """A change in the audit log: of an experiment, or of a key or the settings if ``experiment`` is null.

    ``actor`` is the public id of a key, "anonymous", or "command line"; ``change`` is create, add_action,
    remove_action, add_shadow, remove_shadow, promote, set_retention, erase_subject, retire, add_key, revoke_key, start
    (of a service, with its settings) or restore (of a backup). ``before`` and ``after`` have the fields that differ.
    """

    id: int
    at: str
    experiment: str | None
    actor: str
    request_id: str | None
    change: str
    subject: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class ChangePage(Struct):
    """Changes in the audit log, the latest first; pass ``next`` as ``before`` to get earlier ones."""

    changes: list[ChangeInfo]
    next: int | None
