"""API keys: identities and their scopes in each experiment."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from releaf.service.errors import ApiError
from releaf.service.store.base import KeyRow

SCOPES = ("read", "decide", "reward", "admin")
ALPHABET = string.ascii_letters + string.digits  # a double click selects a whole key
ID_LENGTH, SECRET_LENGTH = 8, 43  # 43 of 62 letters and digits: 256 bits
EXPERIMENT = re.compile(r"\*|[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
NO_SCOPES: frozenset[str] = frozenset()
NO_KEY = "this needs an API key: send it as Authorization: Bearer rlf_…"
WRONG_KEY = "this API key is wrong or revoked: make a new one with releaf keys add"


class Identity(NamedTuple):
    """Sender of a request: the public id of its key, its name, and its scopes in each experiment."""

    id: str
    name: str
    scopes: Mapping[str, frozenset[str]]

    def allows(self, experiment: str, scope: str) -> bool:
        """Whether the identity has a scope in an experiment."""
        return scope in self.scopes.get(experiment, NO_SCOPES) or scope in self.scopes.get("*", NO_SCOPES)

    def is_admin_key(self, experiment: str) -> bool:
        """Whether the identity is that of a key with the scope ``admin`` in an experiment."""
        return bool(self.id) and self.allows(experiment, "admin")

    def require(self, experiment: str, scope: str) -> None:
        """Raise an error with status 403 unless the identity has a scope in an experiment."""
        if not self.allows(experiment, scope):
            sender = f"the key {self.id}" if self.id else "a request without a key"
            raise ApiError(403, "forbidden", f"{sender} lacks the scope {experiment}:{scope}")

    def require_anywhere(self, scope: str) -> None:
        """Raise an error with status 403 unless the identity has a scope in some experiment."""
        if not any(scope in granted for granted in self.scopes.values()):
            raise ApiError(403, "forbidden", f"the key {self.id} has the scope {scope} in no experiment")


FULL_ACCESS = Identity("", "everyone", {"*": frozenset(SCOPES)})  # if no keys are needed
NO_ACCESS = Identity("", "nobody", {})  # for public operations


def parse_scopes(text: str) -> dict[str, frozenset[str]]:
    """Parse "experiment:scope" entries separated by spaces into scopes by experiment; admin implies all others.

    >>> sorted(parse_scopes("triage:decide triage:reward")["triage"])
    ['decide', 'reward']
    """
    scopes: dict[str, frozenset[str]] = {}
    for entry in text.split():
        experiment, _, scope = entry.partition(":")
        if scope not in SCOPES or not EXPERIMENT.fullmatch(experiment):
            known = ", ".join(SCOPES)
            raise ValueError(f"scope is {entry!r}: expected experiment:scope or *:scope with a scope of {known}")
        scopes[experiment] = scopes.get(experiment, NO_SCOPES).union(SCOPES if scope == "admin" else [scope])
    return scopes


def make_key(name: str, scopes: Iterable[str], created: float | None = None) -> tuple[str, KeyRow]:
    """Make a key; return it in plain text, to be shown once, and its row for the store.

    Parameters
    ----------
    name
        Owner or purpose of the key, for people.
    scopes
        Entries "experiment:scope", with * for all experiments.
    created
        Seconds since 1970; now by default.
    """
    if not 0 < len(name) <= 200 or not name.isprintable():
        raise ValueError(f"name is {name!r}: expected 1 to 200 printable characters")
    granted = sorted(set(scopes))
    for entry in granted:
        if len(entry.split()) != 1:
            raise ValueError(f"scope is {entry!r}: expected one experiment:scope")
    if not parse_scopes(" ".join(granted)):
        raise ValueError("scopes are empty: expected at least one, such as triage:decide")
    public, secret = _random_text(ID_LENGTH), _random_text(SECRET_LENGTH)
    at = time.time() if created is None else created
    return f"rlf_{public}_{secret}", KeyRow(public, name, hash_secret(secret.encode()), " ".join(granted), at, None)


def hash_secret(secret: bytes) -> bytes:
    """Hash of a secret.

    Slow hashes protect passwords, which people choose from a small set. These secrets are 256 random bits: nobody can
    try them all, however fast the hash is, and every request computes it.
    """
    return hashlib.sha256(secret).digest()


def _random_text(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _stored_scopes(row: KeyRow) -> dict[str, frozenset[str]]:
    """Scopes of a stored key; none if they are unreadable, so that other keys stay valid."""
    try:
        return parse_scopes(row.scopes)
    except ValueError:
        return {}


class Keyring:
    """The valid keys.

    Parameters
    ----------
    rows
        All keys of the store; revoked ones are ignored.
    """

    def __init__(self, rows: Iterable[KeyRow] = ()) -> None:
        # Compared for unknown ids, so that the answer takes as long as for a wrong secret.
        self._unknown = (hash_secret(secrets.token_bytes(32)), NO_ACCESS)
        self.reload(rows)

    def reload(self, rows: Iterable[KeyRow]) -> None:
        """Replace all keys by those of the store."""
        valid = {}
        for row in rows:
            if row.revoked is None:
                valid[row.id.encode()] = (row.digest, Identity(row.id, row.name, _stored_scopes(row)))
        self._keys = valid

    def __len__(self) -> int:
        return len(self._keys)

    def identify(self, authorization: bytes | None) -> Identity:
        """Identify the sender of an ``Authorization`` header; an error with status 401 if the key is not valid."""
        if authorization is None:
            raise ApiError(401, "key_needed", NO_KEY)
        scheme, _, key = authorization.partition(b" ")
        prefix, _, rest = key.strip().partition(b"_")
        public, _, secret = rest.partition(b"_")
        digest, identity = self._keys.get(public, self._unknown)
        right = hmac.compare_digest(digest, hash_secret(secret))
        if not right or prefix != b"rlf" or scheme.lower() != b"bearer":
            raise ApiError(401, "key_wrong", WRONG_KEY)
        return identity

    def find(self, key: str) -> Identity | None:
        """Identity of a valid key by its public id; None if it is unknown or revoked."""
        entry = self._keys.get(key.encode())
        return None if entry is None else entry[1]
