"""Halves of a log: in its order, or shuffled; and what differs between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from planted_logs import planted_log

from releaf import evaluate
from releaf.evaluate.off_policy import differing_shares

LOG = planted_log(2_000, 0, strength=2.0).log
ORDER = np.argsort(LOG.taken, kind="stable")
SORTED = replace(
    LOG,
    contexts=LOG.contexts[ORDER],
    taken=LOG.taken[ORDER],
    rewards=LOG.rewards[ORDER],
    probabilities=LOG.probabilities[ORDER],  # type: ignore[index]
)


def test_halves_keep_the_order_unless_they_are_shuffled() -> None:
    first, second = evaluate.halves(LOG)
    assert np.array_equal(np.concatenate([first.rewards, second.rewards]), LOG.rewards)
    one, other = evaluate.halves(LOG, seed=1)
    assert len(one) == len(other) == 1_000
    assert not np.array_equal(one.contexts, first.contexts)
    assert np.array_equal(one.contexts, evaluate.halves(LOG, seed=1)[0].contexts)
    both = np.concatenate([one.contexts, other.contexts])
    assert np.array_equal(np.sort(both, axis=0), np.sort(LOG.contexts, axis=0))


def test_a_log_sorted_by_action_has_halves_that_differ_until_it_is_shuffled() -> None:
    assert "of the first half and" in differing_shares(*evaluate.halves(SORTED))
    assert not differing_shares(*evaluate.halves(LOG))
    assert not differing_shares(*evaluate.halves(SORTED, seed=0))
    assert not differing_shares(*evaluate.halves(replace(LOG, taken=np.zeros(2_000, dtype=int))))


def test_a_log_of_one_row_differs_in_nothing() -> None:
    assert not differing_shares(*evaluate.halves(planted_log(1, 0).log))
