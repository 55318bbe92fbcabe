"""Idempotency keys: the same key gives the same decision again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from releaf.service.errors import invalid_request

KEYS_KEPT = 100_000


def distinct_keys(keys: Iterable[str | None]) -> list[str]:
    """The keys given in a request; an error if two are equal."""
    present = [key for key in keys if key is not None]
    if len(set(present)) < len(present):
        raise invalid_request("keys must differ within a request")
    return present


class IdempotencyKeys(OrderedDict[str, int]):
    """Decision numbers by idempotency key, the oldest first."""

    def known(self, keys: Sequence[str]) -> dict[str, int]:
        """Those of these keys that have a decision already, with its number."""
        return {key: self[key] for key in keys if key in self}

    def drop_oldest(self) -> None:
        """Keep only the newest KEYS_KEPT keys."""
        while len(self) > KEYS_KEPT:
            self.popitem(last=False)
