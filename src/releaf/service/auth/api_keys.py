"""API keys: who asks, and what they may do in which experiment."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from releaf.service.errors import Problem
from releaf.service.store.base import KeyRow

SCOPES = ("read", "decide", "reward", "admin")
ALPHABET = string.ascii_letters + string.digits  # a double click selects the whole key
ID_LENGTH, SECRET_LENGTH = 8, 43  # 43 of 62 letters and digits: 256 bits
EXPERIMENT = re.compile(r"\*|[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
NOTHING: frozenset[str] = frozenset()
NO_KEY = "this needs an API key: send it as Authorization: Bearer rlf_…"
WRONG_KEY = "this API key is not valid (any more); releaf keys add makes a new one"


class Identity(NamedTuple):
    """Who asks: a key's public id, its name, and the scopes it has in each experiment."""

    id: str
    name: str
    scopes: Mapping[str, frozenset[str]]

    def allows(self, experiment: str, scope: str) -> bool:
        """Whether this may be done in an experiment."""
        return scope in self.scopes.get(experiment, NOTHING) or scope in self.scopes.get("*", NOTHING)

    def demand(self, experiment: str, scope: str) -> None:
        """Raise a problem unless this may be done in an experiment."""
        if not self.allows(experiment, scope):
            who = f"the key {self.id}" if self.id else "a request without a key"
            raise Problem(403, "forbidden", f"{who} has not the scope {experiment}:{scope}")


EVERYONE = Identity("", "everyone", {"*": frozenset(SCOPES)})  # where no keys are needed
NOBODY = Identity("", "nobody", {})  # what is open to all needs no scope


def parse_scopes(text: str) -> dict[str, frozenset[str]]:
    """Scopes of each experiment, from "experiment:scope" separated by spaces; admin implies all the others.

    >>> sorted(parse_scopes("triage:decide triage:reward")["triage"])
    ['decide', 'reward']
    """
    found: dict[str, frozenset[str]] = {}
    for entry in text.split():
        experiment, _, scope = entry.partition(":")
        if scope not in SCOPES or not EXPERIMENT.fullmatch(experiment):
            known = ", ".join(SCOPES)
            raise ValueError(f"scope is {entry!r}, expected experiment:scope or *:scope with a scope of {known}")
        found[experiment] = found.get(experiment, NOTHING).union(SCOPES if scope == "admin" else [scope])
    return found


def make_key(name: str, scopes: Iterable[str], created: float | None = None) -> tuple[str, KeyRow]:
    """Make a key: what its owner is told, once, and what is kept of it.

    Parameters
    ----------
    name
        Whose key it is, or what for; for people.
    scopes
        "experiment:scope", with * for all experiments.
    created
        Seconds since 1970; now by default.
    """
    if not 0 < len(name) <= 200 or not name.isprintable():
        raise ValueError(f"name is {name!r}, expected 1 to 200 printable characters")
    granted = sorted(set(scopes))
    for entry in granted:
        if len(entry.split()) != 1:
            raise ValueError(f"scope is {entry!r}, expected one experiment:scope")
    if not parse_scopes(" ".join(granted)):
        raise ValueError("scopes are empty, expected at least one, such as triage:decide")
    public, secret = _random_text(ID_LENGTH), _random_text(SECRET_LENGTH)
    at = time.time() if created is None else created
    return f"rlf_{public}_{secret}", KeyRow(public, name, digest_of(secret.encode()), " ".join(granted), at, None)


def digest_of(secret: bytes) -> bytes:
    """What is kept of a secret.

    A slow hash protects passwords, of which there are few that people choose. These secrets are 256 random bits:
    nobody can try them all, however fast the hash is, and this one is computed in every request.
    """
    return hashlib.sha256(secret).digest()


def _random_text(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _scopes_kept(row: KeyRow) -> dict[str, frozenset[str]]:
    """The scopes of a key in the store: none where they can't be read, so that the other keys go on being valid."""
    try:
        return parse_scopes(row.scopes)
    except ValueError:
        return {}


class Keyring:
    """The keys that are valid now.

    Parameters
    ----------
    rows
        All keys of the store; revoked ones are left out.
    """

    def __init__(self, rows: Iterable[KeyRow] = ()) -> None:
        # Compared with where an id is unknown, so that the answer takes as long as for a wrong secret.
        self._unknown = (digest_of(secrets.token_bytes(32)), NOBODY)
        self.reload(rows)

    def reload(self, rows: Iterable[KeyRow]) -> None:
        """Take over the keys as they are in the store now."""
        valid = {}
        for row in rows:
            if row.revoked is None:
                valid[row.id.encode()] = (row.digest, Identity(row.id, row.name, _scopes_kept(row)))
        self._keys = valid

    def __len__(self) -> int:
        return len(self._keys)

    def identify(self, authorization: bytes | None) -> Identity:
        """Who sends this ``Authorization`` header; a problem with the status 401 where nobody known does."""
        if authorization is None:
            raise Problem(401, "key_needed", NO_KEY)
        scheme, _, key = authorization.partition(b" ")
        prefix, _, rest = key.strip().partition(b"_")
        public, _, secret = rest.partition(b"_")
        digest, identity = self._keys.get(public, self._unknown)
        right = hmac.compare_digest(digest, digest_of(secret))
        if not right or prefix != b"rlf" or scheme.lower() != b"bearer":
            raise Problem(401, "key_wrong", WRONG_KEY)
        return identity

    def find(self, key: str) -> Identity | None:
        """The identity of a valid key by its public id; None where it is unknown or revoked."""
        found = self._keys.get(key.encode())
        return None if found is None else found[1]
