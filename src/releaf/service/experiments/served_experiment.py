"""An experiment in this process: its state in memory, its log in the store, and what keeps the two together."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from releaf.service.errors import Problem, invalid, unavailable
from releaf.service.experiments import learner_factory as policies
from releaf.service.experiments import serialization as memory
from releaf.service.experiments.event_feeds import Feed
from releaf.service.experiments.state import Experiment, NotWaiting
from releaf.service.experiments.time_series import iso
from releaf.service.log.events import AnyEvent, Decided, Rewarded, decode_page
from releaf.service.log.group_commit import Desk
from releaf.service.log.recovery import Recovery
from releaf.service.log.snapshot_check import Place
from releaf.service.log.snapshots import Snapshots
from releaf.service.messages import ExperimentInfo, Learnt, NewExperiment, NewShadow, RewardOf
from releaf.service.settings import Settings
from releaf.service.store.base import ExperimentRow, RewardRow, Store, StoreError

LIVE, STANDBY, RECOVERING, DAMAGED, RETIRED = "live", "standby", "recovering", "damaged", "retired"
MOST_MESSAGES = 20
LONGEST_BATCH = 0.5  # seconds of deciding, in which no other request gets its turn
_ATTEMPTS = 3
log = logging.getLogger("releaf.service")
T = TypeVar("T")


class Clock:
    """The time of day as it was at the start, and from then on what has passed: it never goes back."""

    def __init__(self) -> None:
        self._start = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since 1970."""
        return self._start + time.monotonic()


class Running:
    """One experiment, served by this process, or watched while another one serves it.

    Parameters
    ----------
    row
        The experiment as the store has it.
    store, desk, clock
        Those of the hub.
    settings
        When snapshots are made.
    """

    def __init__(self, row: ExperimentRow, store: Store, desk: Desk, clock: Clock, settings: Settings) -> None:
        self.id, self.name, self.created = row.id, row.name, row.created
        self.spec = msgspec.json.decode(row.spec, type=NewExperiment)
        self.store, self._desk, self._clock = store, desk, clock
        self.snapshots = Snapshots(store, row.id, settings, self.note)
        self.status = STANDBY
        self.taking_up = asyncio.Lock()
        self.is_warm = False  # kernels are loaded, on a standby
        self.state: Experiment | None = None
        self.last, self.checksum = 0, b""
        self.messages: list[str] = []
        self.trouble = ""  # why memory has to be made from the log
        self.feeds: set[Feed] = set()
        self._ahead = 0.0  # of the clock, where the log has later times
        self._page: tuple[int, dict[int, Decided]] = (0, {})  # decisions of the page that was looked at last

    # --- the author of pages ------------------------------------------------------------------------------------

    def decisions(self) -> int:
        """The number of the latest decision."""
        return self.state.tally.decisions if self.state else 0

    def page_taken(self) -> None:
        """Memory is now as the log will be: the moment for a snapshot."""
        if self.state is not None:
            self.snapshots.consider(self.state, Place(self.last, self.checksum))

    def page_written(self, events: Sequence[AnyEvent]) -> None:
        """Tell those who watch, and save the snapshot that was captured."""
        for feed in self.feeds:
            for event in events:
                if feed.full():
                    feed.get_nowait()
                feed.put_nowait(event)
        self.snapshots.save_captured()

    def page_lost(self, error: StoreError) -> None:
        """Memory is ahead of the log: no more requests until it has been made from the log anew."""
        if self.status == LIVE:
            self.note(f"a write failed, recovering from the log: {error}", logging.ERROR)
        self.status, self.state, self.trouble = RECOVERING, None, f" ({error})"
        self.snapshots.forget()

    def note(self, message: str, level: int = logging.WARNING) -> None:
        """Say something about this experiment that its owner has to know."""
        log.log(level, "experiment %s: %s", self.name, message)
        self.messages = [*self.messages, f"{iso(self.now())} {message}"][-MOST_MESSAGES:]

    def now(self) -> float:
        """The time, never before that of the latest event."""
        return self._clock.now() + self._ahead

    # --- requests -----------------------------------------------------------------------------------------------

    def live(self) -> Experiment:
        """The state; a Problem where this process can't answer for it."""
        if self.state is not None and self.status == LIVE:
            return self.state
        reasons = {
            STANDBY: "another process serves this experiment; ask that one, or wait until this one takes over",
            DAMAGED: f"none of its snapshots can be read: {'; '.join(self.messages[-1:])}",
        }
        raise unavailable(reasons.get(self.status, f"it is being made from its log; try again soon{self.trouble}"))

    def _failed(self, error: Exception) -> Problem:
        """A change went wrong in a way that nobody foresaw: memory is made anew from the log."""
        log.error("experiment %s: a change failed", self.name, exc_info=error)
        lost = StoreError(f"an error of the program: {error!r}")
        self.page_lost(lost)
        self._desk.forget(self, lost)
        return unavailable("an error of the program; the state is being made from the log anew")

    def _change(self, change: Callable[[Experiment], T]) -> T:
        """Change the state."""
        try:
            return change(self.live())
        except (Problem, NotWaiting):
            raise
        except Exception as error:
            raise self._failed(error) from error

    def require_time_for(self, contexts: int) -> None:
        """Refuse a batch that would keep all other requests waiting for too long."""
        state = self.live()
        seconds = sum(seat.seconds for seat in (state.seat, *state.shadows))
        if contexts > 1 and contexts * seconds > LONGEST_BATCH:
            fit = max(1, int(LONGEST_BATCH / seconds))
            message = f"{contexts:,} contexts in one request: a decision takes {1000 * seconds:,.3g} ms here, shadows "
            raise Problem(
                413, "too_many", f"{message}included, and others have to wait for it: expected at most {fit:,}"
            )

    async def decide(self, contexts: list[Any], keys: Sequence[str | None]) -> list[Decided]:
        """Decide, durably. A context whose key was seen before gets the decision of that time."""
        given = [key for key in keys if key is not None]
        if given:
            if len(set(given)) < len(given):
                raise invalid("keys must differ within a request")
            known = self.live().keys
            repeated = {key: known[key] for key in given if key in known}
            if repeated:
                return await self._decide_some(contexts, keys, repeated)
        at = self.now()
        made = self._change(lambda state: state.decide(contexts, keys, at))
        await self._desk.put(self, made)
        return made

    async def _decide_some(
        self, contexts: list[Any], keys: Sequence[str | None], repeated: dict[str, int]
    ) -> list[Decided]:
        """Decide only for those contexts whose key is new."""
        before = {}
        for place, key in enumerate(keys):
            if key in repeated:
                before[place] = await self.decided(repeated[key])
                if before[place].context != self.live().rows([contexts[place]])[0]:
                    raise Problem(409, "key_reused", f"key {key!r} was used for another context")
        new = [place for place in range(len(contexts)) if place not in before]
        if new:
            made = await self.decide([contexts[place] for place in new], [keys[place] for place in new])
            before |= dict(zip(new, made, strict=True))
        return [before[place] for place in range(len(contexts))]

    async def reward(self, given: Sequence[RewardOf]) -> list[Learnt]:
        """Learn rewards, durably; all of them or, where one can't be, none."""
        for _ in range(_ATTEMPTS):
            state = self.live()
            idle = [one for one in given if one.decision not in state.waiting]
            repeated = await self._given_before(idle) if idle else set()
            try:
                return await self._reward_now(given, repeated)
            except NotWaiting:  # another request has just given it
                continue
        raise unavailable("other requests give rewards to the same decisions")

    async def _reward_now(self, given: Sequence[RewardOf], repeated: set[int]) -> list[Learnt]:
        at = self.now()
        made, outcomes = self._change(lambda state: _rewarded(state, given, repeated, at))
        if made:
            await self._desk.put(self, made, outcomes)
        fresh = {event.decision for event in made}
        told: list[Learnt] = []
        for one in given:
            told.append(Learnt(one.decision, "learnt" if one.decision in fresh else "repeated"))
            fresh.discard(one.decision)
        return told

    async def _given_before(self, idle: Sequence[RewardOf]) -> set[int]:
        """The decisions whose very reward came before; a Problem where one waits for none."""
        made, numbers = self.live().tally.decisions, [one.decision for one in idle]
        unknown = next((number for number in numbers if not 1 <= number <= made), None)
        if unknown is not None:
            message = f"unknown decision {unknown}: this experiment has made decisions 1 to {made}"
            raise Problem(404, "unknown_decision", message)
        await self._desk.flushed(self)
        rows = await self.store.rewards(self.id, min(numbers), max(numbers))
        return {one.decision for one in idle if await self._was_given(one, rows.get(one.decision))}

    async def _was_given(self, one: RewardOf, row: RewardRow | None) -> bool:
        number = one.decision
        if row is not None:
            if row.outcome == "rewarded" and row.reward is not None:
                if self.live().actions.was_given(number, json.loads(row.reward), one.reward):
                    return True
                raise Problem(409, "already_rewarded", f"decision {number} was given the reward {row.reward} before")
            became = f"counts with the default {row.reward}" if row.outcome == "default" else "no longer waits"
            raise Problem(410, "too_late", f"decision {number} {became} since {iso(row.at)}: its reward comes too late")
        if not (await self.decided(number)).wants_reward:
            raise Problem(409, "unasked", f"decision {number} did not ask for a reward; learn only where wants_reward")
        if number in self.live().waiting:
            raise NotWaiting  # cannot be: it was not waiting a moment ago
        limit = self.live().learner.max_pending
        raise Problem(410, "forgotten", f"decision {number} is older than the newest {limit:,} that wait")

    async def change(self, what: str, *arguments: Any) -> None:
        """Make one of the changes that are methods of the experiment, durably."""
        at, before = self.now(), len(self.live().learner.actions)
        event = self._change(lambda state: getattr(state, what)(*arguments, at))
        for seat in (self.live().seat, *self.live().shadows):
            seat.seconds *= len(self.live().learner.actions) / before  # about; it is measured at each start
        await self._desk.put(self, [event], self.live().take_outcomes())

    async def add_shadow(self, given: NewShadow) -> None:
        """Let another policy decide beside the one in charge."""
        learner = self.live().learner
        made = await asyncio.to_thread(policies.build, given.policy, learner.actions, learner.schema)
        seconds = await asyncio.to_thread(policies.warm, made)
        await self.change("add_shadow", given.name, given.policy, made)
        for shadow in self.live().shadows:
            if shadow.name == given.name:
                shadow.seconds = seconds

    async def expire(self) -> None:
        """Deal with decisions whose deadline has passed."""
        while self.status == LIVE:
            event = self._change(lambda state: state.expire(self.now()))
            if event is None:
                return
            await self._desk.put(self, [event], self.live().take_outcomes())

    async def decided(self, number: int) -> Decided:
        """A decision as the log has it."""
        made = self.live().tally.decisions
        if not 1 <= number <= made:
            message = f"unknown decision {number}: this experiment has made decisions 1 to {made}"
            raise Problem(404, "unknown_decision", message)
        await self._desk.flushed(self)
        if number not in self._page[1]:
            async for page in self.store.pages_back(self.id, number):
                found = {event.number: event for event in decode_page(page.body) if isinstance(event, Decided)}
                self._page = (page.last, found)
                break
        if number not in self._page[1]:
            raise Problem(404, "unknown_decision", f"decision {number} is not in the log")
        return self._page[1][number]

    async def flushed(self) -> None:
        """Wait until all that happened so far is on disk."""
        await self._desk.flushed(self)

    def info(self) -> ExperimentInfo:
        """How it stands; where another process serves it, what it was created with."""
        state = self.state
        return ExperimentInfo(
            name=self.name,
            status=RETIRED if state and state.retired else self.status,
            created=iso(self.created),
            policy=state.seat.policy if state else self.spec.policy,
            actions=list(state.learner.actions) if state else self.spec.actions,
            features=policies.schema_of(self.spec).to_dict(),
            rewards=self.spec.rewards,
            counts=state.counts() if state else None,
            label_budget=getattr(state.learner, "label_budget", None) if state else None,
            labels_spent=_labels_spent(state) if state else None,
            shadows=[shadow.tell() for shadow in state.shadows] if state else [],
            events=self.last,
            snapshot=self.snapshots.last,
            messages=[*self.messages, *_advice(state)] if state else self.messages,
        )

    # --- from the store to memory and back ----------------------------------------------------------------------

    async def load(self) -> None:
        """Make the state from the latest good snapshot and the log after it."""
        self.status = RECOVERING
        with contextlib.suppress(Problem):
            await self._desk.flushed(self)  # a write that is still under way belongs to the log
        started, recovery = time.perf_counter(), Recovery(self.store, self.id, self.note)
        state = await recovery.run()
        self.snapshots.unreadable |= recovery.unreadable
        if state is None:
            self.status = DAMAGED
            return
        (self.last, self.checksum), self.snapshots.last = recovery.place, recovery.begun_at
        for seat in (state.seat, *state.shadows):
            seat.seconds = await asyncio.to_thread(policies.warm, seat.learner)
        state.take_outcomes()
        self._ahead = max(0.0, state.last_at - self._clock.now())
        self.state, self.status, self.trouble = state, LIVE, ""
        if recovery.known > state.tally.decisions:  # clients may have those decisions: their numbers are spent
            await self.change("lose", recovery.known)
        took, after = time.perf_counter() - started, self.last - recovery.begun_at
        log.info("experiment %s: live after %.2f s, with %d events after the snapshot", self.name, took, after)

    async def snapshot_now(self) -> None:
        """Save the present state, where something happened since the latest snapshot."""
        await self.snapshots.finished()
        if self.state is not None and self.status == LIVE:
            await self._desk.flushed(self)
            await self.snapshots.save(self.state, Place(self.last, self.checksum))


def _advice(state: Experiment) -> list[str]:
    """What its owner should do something about."""
    budget, spent = getattr(state.learner, "label_budget", None), _labels_spent(state)
    if budget is None or spent is None or spent < budget:
        return []
    return [
        f"the label budget of {budget:,} is spent: no more rewards are asked for, so nothing more is learnt, also of "
        "new actions and shadows; create an experiment with a larger one, from this model"
    ]


def _labels_spent(state: Experiment) -> int | None:
    """How many rewards the learner in charge has asked for, where it has a budget of them."""
    budget = getattr(state.learner, "label_budget", None)
    return None if budget is None else int(state.learner.explorations)


def _rewarded(
    state: Experiment, given: Sequence[RewardOf], repeated: set[int], at: float
) -> tuple[list[Rewarded], list[RewardRow]]:
    """Check all rewards, then learn those that did not come before."""
    values: dict[int, Any] = {}
    for one in given:
        if one.decision not in repeated:
            value = state.checked_reward(one.decision, one.reward, at)
            if values.setdefault(one.decision, value) != value:
                raise Problem(409, "conflict", f"two rewards for decision {one.decision} in one request")
    return [state.reward(decision, value, at) for decision, value in values.items()], state.take_outcomes()


def first_snapshot(state: Experiment) -> bytes:
    """What a new experiment begins from; a ValueError where it could not be begun from that again."""
    body = memory.packed(memory.as_bytes(state))
    memory.from_bytes(memory.unpacked(body))
    return body
