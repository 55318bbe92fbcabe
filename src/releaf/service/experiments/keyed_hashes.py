"""Keyed hashes: what stands in the log for subjects, and for contexts that retention hashed.

Without the secret of the store nobody can find out whom or what a hash stands for by trying.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from typing import Any

import msgspec

HASH_BYTES = 16  # of the HMAC: 128 bits


def keyed_hash(secret: bytes, content: bytes) -> str:
    """HMAC-SHA256, shortened to 128 bits: 22 characters."""
    digest = hmac.digest(secret, content, "sha256")
    return base64.urlsafe_b64encode(digest[:HASH_BYTES]).decode().rstrip("=")


class KeyedHashes:
    """Keyed hashes of one experiment: the same subject has other hashes in other experiments.

    Parameters
    ----------
    secret
        Secret of the store, the same for all its processes.
    experiment
        Id of the experiment in the store.

    Examples
    --------
    >>> hashes = KeyedHashes(b"secret of the store", experiment=1)
    >>> hashes.subject("customer 7")
    '0V8GjRDU-ciojHkoVL6elg'
    """

    def __init__(self, secret: bytes, experiment: int) -> None:
        self._secret, self._experiment = secret, experiment

    def subject(self, subject: str) -> str:
        """Hash of a subject."""
        return keyed_hash(self._secret, f"releaf subject {self._experiment} {subject}".encode())

    def subjects(self, subjects: Sequence[str | None]) -> list[str | None]:
        """Hashes of subjects; None where there is none."""
        return [None if subject is None else self.subject(subject) for subject in subjects]

    def context(self, context: list[Any]) -> str:
        """Hash of a context: equal contexts have equal hashes."""
        return keyed_hash(
            self._secret, f"releaf context {self._experiment} ".encode() + msgspec.msgpack.encode(context)
        )
