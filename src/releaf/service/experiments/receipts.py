"""Receipts of decisions: an unguessable part of their answers, which their rewards must give back."""

from __future__ import annotations

import hmac
import secrets
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import itemgetter

from releaf.service.errors import ApiError
from releaf.service.experiments.keyed_hashes import keyed_hash
from releaf.service.messages import RewardOf


class Receipts:
    """Makes and checks the receipts of one experiment: HMAC-SHA256 of its id and the decision's number.

    Numbers of decisions are consecutive: whoever may reward could otherwise reward decisions of others by counting.
    Where a part of the log is lost, later receipts have a random part: those of the lost decisions fit no other.

    Parameters
    ----------
    secret
        Secret of the store, the same for all its processes.
    experiment
        Id of the experiment in the store.
    parts
        Numbers, each with the random part of the receipts of all later decisions.

    Examples
    --------
    >>> receipts = Receipts(b"secret of the store", experiment=1)
    >>> receipts.make(7)
    'jDrkxnvYs7IY6DX7dvMS0w'
    """

    def __init__(self, secret: bytes, experiment: int, parts: Sequence[tuple[int, str]] = ()) -> None:
        self._secret, self._prefix, self._parts = secret, f"releaf receipt {experiment} ", parts

    def make(self, decision: int) -> str:
        """The receipt of a decision: 22 characters."""
        earlier = bisect_left(self._parts, decision, key=itemgetter(0)) if self._parts else 0
        part = f"{self._parts[earlier - 1][1]} " if earlier else ""
        return keyed_hash(self._secret, f"{self._prefix}{part}{decision}".encode())

    def check(self, rewards: Iterable[RewardOf], *, required: bool = True) -> None:
        """Raise an `ApiError` with status 403 unless all rewards have the receipts of their decisions.

        Unless they are ``required``, a receipt may be missing, but not wrong.
        """
        for one in rewards:
            if one.receipt is None and not required:
                continue
            if one.receipt is None:
                raise ApiError(
                    403,
                    "receipt_missing",
                    f"the reward of decision {one.decision} has no receipt: this experiment has signed rewards; send "
                    "the receipt in the answer to decide",
                )
            if not hmac.compare_digest(one.receipt.encode(), self.make(one.decision).encode()):
                raise ApiError(
                    403,
                    "receipt_wrong",
                    f"the receipt is not that of decision {one.decision}: send the receipt in the answer to decide",
                )


def new_receipt_part() -> str:
    """A random part of receipts."""
    return secrets.token_hex(16)
