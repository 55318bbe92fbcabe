"""Records of changes for the audit log: who changed what, and the fields that differ before and after."""

from __future__ import annotations

import base64
import hashlib
import time
from dataclasses import asdict
from typing import Any, NamedTuple

import msgspec

from releaf._version import __version__
from releaf.service.messages import ChangeInfo, NewExperiment
from releaf.service.settings import ServiceSettings
from releaf.service.store.backup_file import Manifest
from releaf.service.store.base import ChangeRow, EventStore, KeyRow
from releaf.service.structured_logging import mask
from releaf.service.timestamps import format_timestamp

ANONYMOUS, COMMAND_LINE = "anonymous", "command line"
MAX_ID = 2**53
CHANGES_PER_READ = 100
Fields = dict[str, Any]


class Sender(NamedTuple):
    """Who asked for a change: the public id of a key, and the id of the request."""

    actor: str
    request_id: str | None


SOMEONE = Sender(ANONYMOUS, None)
TERMINAL = Sender(COMMAND_LINE, None)


def record_change(
    at: float, sender: Sender, experiment: str, change: str, subject: Any, before: Fields, after: Fields
) -> ChangeRow:
    """Record a change of an experiment, with the fields that differ."""
    differ = [name for name in after if before[name] != after[name]]
    states = [_encode({name: fields[name] for name in differ}) for fields in (before, after)]
    return _row(at, sender, experiment, change, subject, *states)


def record_creation(at: float, sender: Sender, spec: NewExperiment, model: str | None) -> ChangeRow:
    """Record a new experiment; of the model that it starts from, the digest."""
    after = msgspec.structs.asdict(spec) | {"model": None if model is None else _digest(model)}
    return _row(at, sender, spec.name, "create", None, None, _encode(after))


def record_erasure(at: float, sender: Sender, experiment: str, subject: str, decisions: int) -> ChangeRow:
    """Record the erasure of a subject, under its keyed hash."""
    return _row(at, sender, experiment, "erase_subject", subject, None, _encode({"decisions": decisions}))


def record_key(change: str, key: KeyRow, revoked: float | None = None) -> ChangeRow:
    """Record a key that the command line adds or revokes, without its secret's hash."""
    fields = {"id": key.id, "name": key.name, "scopes": key.scopes.split()}
    if revoked is None:
        return _row(key.created, TERMINAL, None, change, key.id, None, _encode(fields))
    before, after = ({**fields, "revoked": at} for at in (None, format_timestamp(revoked)))
    return _row(revoked, TERMINAL, None, change, key.id, _encode(before), _encode(after))


def record_restoration(file: str, manifest: Manifest) -> ChangeRow:
    """Record that the command line restored a backup to the store."""
    fields = {
        "file": file,
        **{name: getattr(manifest, name) for name in ("created", "source", "releaf", "experiments")},
    }
    return _row(time.time(), TERMINAL, None, "restore", None, None, _encode(fields))


async def record_start(store: EventStore, settings: ServiceSettings, at: float) -> None:
    """Record the settings of a service process that starts, next to those of the process that started before it."""
    shown = {**asdict(settings), "store": mask(settings.store), "version": __version__}
    await store.add_change(_row(at, TERMINAL, None, "start", None, await _latest_settings(store), _encode(shown)))


async def _latest_settings(store: EventStore) -> str | None:
    before = MAX_ID
    while rows := await store.changes(None, before, CHANGES_PER_READ):
        for row in rows:
            if row.change == "start":
                return row.after
        before = rows[-1].id
    return None


def change_message(row: ChangeRow) -> ChangeInfo:
    """A record of the audit log for the API."""
    before, after = (None if text is None else msgspec.json.decode(text) for text in (row.before, row.after))
    return ChangeInfo(
        id=row.id,
        at=format_timestamp(row.at),
        experiment=row.experiment,
        actor=row.actor,
        request_id=row.request_id,
        change=row.change,
        subject=row.subject,
        before=before,
        after=after,
    )


def _row(
    at: float,
    sender: Sender,
    experiment: str | None,
    change: str,
    subject: Any,
    before: str | None,
    after: str | None,
) -> ChangeRow:
    name = None if subject is None else str(subject).replace("\0", "\N{SYMBOL FOR NULL}")  # PostgreSQL has no NUL
    return ChangeRow(at, experiment, sender.actor, sender.request_id, change, name, before, after)


def _encode(fields: Fields) -> str:
    return msgspec.json.encode(fields).decode()


def _digest(model: str) -> str:
    return f"sha256:{hashlib.sha256(base64.b64decode(model)).hexdigest()}"
