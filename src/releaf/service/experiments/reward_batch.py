"""The rewards of one request: validated first, then learnt, in as many slices as they need."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Any

from releaf.service.errors import AlreadyRewarded, ApiError
from releaf.service.experiments.receipts import Receipts
from releaf.service.experiments.state import ExperimentState
from releaf.service.experiments.time_slices import TimeSlice
from releaf.service.log.events import Rewarded
from releaf.service.messages import Learnt, RewardOf


class RewardBatch:
    """Rewards of one request, and what has become of each.

    Parameters
    ----------
    given
        The rewards.
    needs_all
        Whether the first error is raised, so that none is learnt; otherwise an error affects its own reward only.
    """

    def __init__(self, given: Sequence[RewardOf], *, needs_all: bool) -> None:
        self._given, self._needs_all = given, needs_all
        self._done: dict[int, ApiError | None] = {}  # by place: rewards that are not learnt; None if repeated
        self._values: dict[int, Any] = {}  # validated rewards by decision
        self._next = 0  # place of the next reward to validate
        self._left: deque[int] = deque()  # decisions whose rewards are yet to be learnt

    async def check_receipts(self, receipts: Receipts, *, required: bool = True) -> None:
        """Reject rewards without the receipts of their decisions."""
        current = TimeSlice()
        for place, one in enumerate(self._given):
            try:
                receipts.check([one], required=required)
            except ApiError as error:
                self._reject(place, error)
            await current.pause_if_over()

    def find_settled(self, pending: Container[int]) -> list[int]:
        """Places of the rewards whose decisions are not pending."""
        return [
            place for place, one in enumerate(self._given) if one.decision not in pending and place not in self._done
        ]

    def settle(self, places: Sequence[int], answers: Sequence[ApiError | None]) -> None:
        """Reject the rewards at these places, or note that they are repeated."""
        for place, answer in zip(places, answers, strict=True):
            if answer is None:
                self._done[place] = None
            else:
                self._reject(place, answer)

    def validate(self, state: ExperimentState, at: float, is_over: Callable[[], bool]) -> bool:
        """Validate rewards until time is over; returns whether all are validated."""
        while self._next < len(self._given):
            if self._next not in self._done:
                try:
                    self._validate_one(state, self._given[self._next], at)
                except ApiError as error:
                    self._reject(self._next, error)
            self._next += 1
            if is_over():
                break
        self._left = deque(self._values)
        return self._next >= len(self._given)

    def _validate_one(self, state: ExperimentState, one: RewardOf, at: float) -> None:
        value = state.validate_reward(one.decision, one.reward, at)
        known = self._values.setdefault(one.decision, value)
        if known != value and self._needs_all:
            raise ApiError(409, "conflict", f"two different rewards for decision {one.decision} in one request")
        if known != value:
            raise AlreadyRewarded(one.decision, json.dumps(known))

    def learn(self, state: ExperimentState, at: float, is_over: Callable[[], bool]) -> list[Rewarded]:
        """Learn validated rewards until time is over; returns the events of the log."""
        events = []
        while self._left:
            decision = self._left.popleft()
            events.append(state.reward(decision, self._values[decision], at))
            if is_over():
                break
        return events

    def is_learnt(self) -> bool:
        """Whether all validated rewards are learnt."""
        return not self._left

    def answers(self) -> list[Learnt | ApiError]:
        """The answer to each reward: its error, or whether it was new."""
        new, answers = set(self._values), list[Learnt | ApiError]()
        for place, one in enumerate(self._given):
            error = self._done.get(place)
            answers.append(error or Learnt(one.decision, "learnt" if one.decision in new else "repeated"))
            if error is None:
                new.discard(one.decision)
        return answers

    def _reject(self, place: int, error: ApiError) -> None:
        if self._needs_all or error.status >= 500:
            raise error
        self._done[place] = error
