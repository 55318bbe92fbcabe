"""Rewards of decisions that are not pending: the repeated ones, and the errors of the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from releaf.service.errors import AlreadyRewarded, ApiError
from releaf.service.experiments.decision_log import DecisionLog
from releaf.service.experiments.pending_decisions import NotPending
from releaf.service.experiments.state import ExperimentState
from releaf.service.experiments.time_slices import TimeSlice
from releaf.service.messages import RewardOf
from releaf.service.store.base import EventStore, RewardRow
from releaf.service.timestamps import format_timestamp


class SettledRewards:
    """Classifies rewards of an experiment's decisions that are not pending, however many come at once.

    Parameters
    ----------
    store
        Where the experiment is.
    experiment
        Its id in the store.
    live
        Returns its state; an `ApiError` unless it is live.
    """

    def __init__(self, store: EventStore, experiment: int, live: Callable[[], ExperimentState]) -> None:
        self._store, self._experiment, self._live = store, experiment, live
        self._log = DecisionLog(store, experiment)

    async def classify(self, settled: Sequence[RewardOf]) -> list[ApiError | None]:
        """Why each can't be learnt; None where the decision already has the same reward.

        Raises `NotPending` if one is pending after all. All events so far must be on disk.
        """
        made = self._live().decisions
        known = sorted({one.decision for one in settled if 1 <= one.decision <= made})
        rows = await self._store.rewards_of(self._experiment, known)
        requested = await self._log.read_requested([number for number in known if number not in rows])
        state, current = self._live(), TimeSlice()
        answers: list[ApiError | None] = []
        for one in settled:
            await current.pause_if_over()
            if not 1 <= one.decision <= made:
                message = f"unknown decision {one.decision}: expected 1 to {made}"
                answers.append(ApiError(404, "unknown_decision", message))
            elif one.decision in rows:
                answers.append(_compare(state, one, rows[one.decision]))
            else:
                answers.append(self._without_outcome(one.decision, requested.get(one.decision)))
        return answers

    def _without_outcome(self, number: int, requested: bool | None) -> ApiError:
        if requested is None:
            return not_in_log(number)
        if not requested:
            message = f"decision {number} did not ask for a reward: send one only if wants_reward is true"
            return ApiError(409, "unasked", message)
        if number in self._live().pending:
            raise NotPending  # a recovery has just restored it: try again
        message = f"decision {number} is no longer pending: an earlier version of the service evicted it"
        return ApiError(410, "forgotten", message)


def not_in_log(number: int) -> ApiError:
    """The error for a decision that was made, but is not in the log."""
    message = f"decision {number} is not in the log: it was lost, dropped by the experiment's retention, or erased"
    return ApiError(404, "unknown_decision", message)


def _compare(state: ExperimentState, one: RewardOf, row: RewardRow) -> ApiError | None:
    """Why a decision with an outcome can't have this reward; None if it is the same again."""
    number = one.decision
    if row.outcome == "rewarded" and row.reward is not None:
        try:
            if state.actions.is_same_reward(number, json.loads(row.reward), one.reward):
                return None
        except ApiError as error:  # no reward at all
            return error
        return AlreadyRewarded(number, row.reward)
    outcome = f"has the default reward {row.reward}" if row.outcome == "default" else "was dropped"
    since = format_timestamp(row.at)
    return ApiError(410, "too_late", f"the reward is too late: decision {number} {outcome} since {since}")
