"""Rates exclude the time of compiling."""

from __future__ import annotations

import time

import numba
import pytest

from releaf.compile_clock import compile_clock
from releaf.core.runtime.jit import IS_COMPILED
from releaf.evaluate import run
from releaf.policy import Trace
from releaf.streams import Stream, breast_cancer

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="needs compiled kernels")


def new_kernel() -> None:
    """Compile a function, and one that it calls, which no cache has."""

    inner = numba.njit(lambda value: value + 1.0)
    outer = numba.njit(lambda value: inner(value) * 2.0)
    assert outer(1.0) == 4.0


def test_the_clock_counts_compiling_once_and_nothing_else() -> None:
    start = time.perf_counter()
    with compile_clock() as clock:
        new_kernel()
        compiled = time.perf_counter() - start
        time.sleep(0.2)
    assert 0.5 * compiled < clock.seconds <= compiled
    before = clock.seconds
    new_kernel()
    assert clock.seconds == before  # after its block


class CompilesAndSleeps:
    """A policy whose first decisions wait for a kernel."""

    def replay(self, contexts: object, rewards: object) -> Trace:
        new_kernel()
        time.sleep(0.1)
        cases = breast_cancer(50)
        actions = cases.rewards.argmax(axis=1)
        return Trace(actions, actions > 5, actions > 5, cases.rewards.max(axis=1))


def test_the_seconds_of_a_run_are_those_of_its_decisions() -> None:
    cases: Stream = breast_cancer(50)
    start = time.perf_counter()
    ledger = run(CompilesAndSleeps(), cases)
    everything = time.perf_counter() - start
    assert 0.1 <= ledger.seconds < everything - 0.02
