"""Idempotency keys: the same key gives the same decision again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable, Mapping, Sequence

from releaf.service.errors import ApiError, invalid_request

DISCARDED = 0  # in place of the number of a decision: its client took a default instead
KEYS_KEPT = 100_000
MOST_KEYS = 1_000_000  # with those of pending decisions, and of what came after them


def distinct_keys(keys: Iterable[str | None]) -> list[str]:
    """The keys given in a request; an error if two are equal."""
    present = [key for key in keys if key is not None]
    if len(set(present)) < len(present):
        raise invalid_request("keys must differ within a request")
    return present


def require_not_discarded(known: Mapping[str, int]) -> None:
    """Raise an error with status 409 if the client has discarded a decision, by its key."""
    for key, number in known.items():
        if number == DISCARDED:
            raise ApiError(409, "discarded", f"key {key!r} was discarded: its client took a default instead")


class IdempotencyKeys(OrderedDict[str, int]):
    """Decision numbers by idempotency key, the oldest first."""

    def known(self, keys: Sequence[str]) -> dict[str, int]:
        """Those of these keys that have a decision already, with its number."""
        return {key: self[key] for key in keys if key in self}

    def drop_until(self, decision: int) -> None:
        """Drop the keys of all decisions up to this one."""
        dropped = []
        for key, number in self.items():
            if number > decision:
                break
            if number != DISCARDED:
                dropped.append(key)
        for key in dropped:
            del self[key]

    def drop_oldest(self, pending: Container[int]) -> None:
        """Keep the newest KEYS_KEPT keys, and up to MOST_KEYS while the oldest one's decision is pending."""
        while len(self) > KEYS_KEPT and (len(self) > MOST_KEYS or next(iter(self.values())) not in pending):
            self.popitem(last=False)
