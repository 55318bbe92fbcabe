"""A served experiment: its state in memory, kept in step with its log in the store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from releaf.service.errors import ApiError, StoreError, service_unavailable
from releaf.service.experiments import learner_factory
from releaf.service.experiments.apprentice_mode import Baselines, describe_evidence
from releaf.service.experiments.change_records import SOMEONE, Sender, record_change
from releaf.service.experiments.clock import MonotonicClock
from releaf.service.experiments.decision_log import DecisionLog
from releaf.service.experiments.event_feeds import Feed, publish
from releaf.service.experiments.idempotency import distinct_keys, require_not_discarded
from releaf.service.experiments.keyed_hashes import KeyedHashes
from releaf.service.experiments.label_costs import LabelCosts, labels_info
from releaf.service.experiments.learner_slot import action_names
from releaf.service.experiments.monitor import ExperimentMonitor
from releaf.service.experiments.pending_decisions import NotPending
from releaf.service.experiments.policy_versions import PolicyVersions
from releaf.service.experiments.receipts import Receipts
from releaf.service.experiments.repeated_requests import AskedBefore, require_same_request
from releaf.service.experiments.reward_batch import RewardBatch
from releaf.service.experiments.serialization import EXPERIMENT_FORMAT
from releaf.service.experiments.settled_rewards import SettledRewards, not_in_log
from releaf.service.experiments.spending import spend_info
from releaf.service.experiments.state import ExperimentState
from releaf.service.experiments.time_slices import TimeSlice, first_part
from releaf.service.log.events import (
    AnyEvent,
    Decided,
    Discarded,
    EligibleActions,
)
from releaf.service.log.group_commit import GroupCommit
from releaf.service.log.page_chain import LogPosition
from releaf.service.log.recovery import LogDamaged, Recovery
from releaf.service.log.snapshots import SnapshotWriter
from releaf.service.log.state_format import compress, decompress
from releaf.service.many_actions import ManyActions
from releaf.service.messages import ExperimentInfo, Learnt, NewExperiment, NewShadow, Observation, RewardOf
from releaf.service.settings import ServiceSettings
from releaf.service.store.base import ChangeRow, EventStore, ExperimentRow
from releaf.service.timestamps import format_timestamp

LIVE, STANDBY, RECOVERING, DAMAGED, RETIRED = "live", "standby", "recovering", "damaged", "retired"
MAX_MESSAGES = 20
MAX_BATCH_SECONDS = 0.5  # for which one batch may block other requests
_ATTEMPTS = 3
log = logging.getLogger("releaf.service")
T = TypeVar("T")


class ServedExperiment:
    """One experiment: live in this process, or on standby while another process serves it.

    Parameters
    ----------
    row
        The experiment in the store.
    store, group_commit, clock
        Shared by all experiments of the registry.
    settings
        When snapshots are due, and whether to set a damaged part of the log aside.
    """

    def __init__(
        self,
        row: ExperimentRow,
        store: EventStore,
        group_commit: GroupCommit,
        clock: MonotonicClock,
        settings: ServiceSettings,
    ) -> None:
        self.id, self.name, self.created = row.id, row.name, row.created
        self.spec = msgspec.json.decode(row.spec, type=NewExperiment)
        self.store, self._group_commit, self._clock = store, group_commit, clock
        self.snapshots = SnapshotWriter(store, row.id, EXPERIMENT_FORMAT, settings, self.report)
        self._salvage = settings.salvage
        self.status = STANDBY
        self.activation_lock = asyncio.Lock()
        self.is_precompiled = False  # whether a standby has compiled its kernels
        self.state: ExperimentState | None = None
        self.last, self.checksum = 0, b""
        self.receipts: Receipts | None = None  # if rewards are signed
        self.hashes = KeyedHashes(b"", row.id)  # with the secret of the store from the recovery on
        self.redacting = asyncio.Lock()  # held while retention or an erasure rewrites pages
        self.messages: list[str] = []
        self.failure = ""  # why the state is being recovered
        self._recovery: Recovery[ExperimentState] | None = None
        self.feeds: set[Feed] = set()
        self.policy_versions = PolicyVersions(lambda: (self.exportable().learner, self.last))
        self.monitor = ExperimentMonitor()
        self._clock_offset = 0.0  # added to the clock if the log has later times
        self._log, self.settled = DecisionLog(store, row.id), SettledRewards(store, row.id, self.live)
        self._deciding = asyncio.Lock()  # held by a batch of decisions from its first one to its last
        self._settling = asyncio.Lock()  # held by rewards from the first one's validation until the last one is learnt

    # --- log owner (see GroupCommit) ----------------------------------------------------------------------------

    def decisions(self) -> int:
        """Number of the latest decision."""
        return self.state.decisions if self.state else 0

    def before_commit(self) -> None:
        """Capture a snapshot if one is due: the state is now what the log will hold."""
        if self.state is not None and not self.state.is_erasing:
            self.snapshots.capture_if_due(self.state, LogPosition(self.last, self.checksum))

    def after_commit(self, events: Sequence[AnyEvent]) -> None:
        """Publish the events to the feeds, and save the captured snapshot."""
        publish(self.feeds, events, self.state)
        self.snapshots.save_captured()

    def commit_failed(self, error: StoreError) -> None:
        """Reject requests until the state, which is ahead of the log, is recovered."""
        if self.status == LIVE:
            self.report(f"a commit failed, recovering from the log: {error}", logging.ERROR)
        self.status, self.state, self.failure = RECOVERING, None, f" ({error})"
        self.snapshots.discard_captured()

    def report(self, message: str, level: int = logging.WARNING) -> None:
        """Log a message, and show it to the owner of the experiment."""
        log.log(level, "experiment %s: %s", self.name, message)
        self.messages = [*self.messages, f"{format_timestamp(self.now())} {message}"][-MAX_MESSAGES:]

    def now(self) -> float:
        """The time, never before that of the latest event."""
        return self._clock.now() + self._clock_offset

    # --- requests -----------------------------------------------------------------------------------------------

    def live(self) -> ExperimentState:
        """The state; an `ApiError` with status 503 unless the experiment is live in this process."""
        if self.state is not None and self.status == LIVE:
            self._group_commit.require_answering()
            return self.state
        reasons = {
            STANDBY: "another process serves this experiment: ask that one, or wait until this one takes over",
            DAMAGED: f"the experiment is damaged: {'; '.join(self.messages[-1:])}",
        }
        raise service_unavailable(
            reasons.get(self.status, f"the experiment is recovering from its log: try again soon{self.failure}")
        )

    def exportable(self) -> ExperimentState:
        """The state, of which copies may be made; status 503 while learners have something of an erased subject."""
        state = self.live()
        if state.is_erasing:
            raise service_unavailable("models are fitted anew after an erasure, and can't be copied: try again soon")
        return state

    def _failed(self, error: Exception) -> ApiError:
        """Recover the state from the log after an unexpected error in a change."""
        log.error("experiment %s: a change failed", self.name, exc_info=error)
        failure = StoreError(f"internal error: {error!r}")
        self.commit_failed(failure)
        self._group_commit.abort(self, failure)
        return service_unavailable("internal error: the experiment is recovering from its log")

    def _change(self, change: Callable[[ExperimentState], T]) -> T:
        """Change the state; an unexpected error starts recovery."""
        try:
            return change(self.live())
        except (ApiError, NotPending):
            raise
        except Exception as error:
            raise self._failed(error) from error

    def limit_batch(self, contexts: int) -> None:
        """Reject a batch that would block other requests for longer than MAX_BATCH_SECONDS."""
        state = self.live()
        seconds = state.decision_seconds()
        if contexts > 1 and contexts * seconds > MAX_BATCH_SECONDS:
            fit = max(1, int(MAX_BATCH_SECONDS / seconds))
            message = f"{contexts:,} contexts in one request: a decision takes {1000 * seconds:,.3g} ms here, shadows "
            raise ApiError(
                413, "too_many", f"{message}included, and would block other requests: expected at most {fit:,}"
            )

    async def decide(
        self,
        contexts: list[Any],
        keys: Sequence[str | None],
        eligible: EligibleActions | None = None,
        subjects: Sequence[str | None] | None = None,
        many: ManyActions | None = None,
        costs: Sequence[Any] | None = None,
        baselines: Baselines | None = None,
        label_costs: LabelCosts | None = None,
    ) -> list[Decided]:
        """Decide and commit. A context whose idempotency key is known gets its earlier decision."""
        distinct, hashed = distinct_keys(keys), None if subjects is None else self.hashes.subjects(subjects)
        async with self._deciding:
            known = self.live().keys.known(distinct) if distinct else None
            if not known:
                priced = (costs, baselines, label_costs)
                made, written = await self._decide_batch(many, contexts, keys, eligible, hashed, *priced)
        if known:
            people = subjects or [None] * len(contexts)
            own = (many, costs, baselines, label_costs)
            return await self._decide_new(contexts, keys, known, eligible, people, *own)
        await written
        return made

    async def _decide_batch(
        self, many: ManyActions | None, contexts: list[Any], *entries: Any
    ) -> tuple[list[Decided], asyncio.Future[None]]:
        """Decide for a batch, a large one in parts between which requests of other experiments run.

        ``entries`` has keys, eligible actions, subjects, costs, baselines and costs of labels of the contexts.
        """

        def decide(part: slice) -> tuple[list[Decided], asyncio.Future[None]]:
            keys, eligible, subjects, *priced = (None if some is None else some[part] for some in entries)
            given: tuple[Any, ...] = (contexts[part], keys, self.now(), eligible, subjects, many, *priced)
            events = self._change(lambda state: state.decide(*given))
            return events, self._group_commit.append(self, events)

        state = self.live()
        size = first_part(state.decision_seconds())
        if len(contexts) <= size:
            return decide(slice(None))
        _, eligible, _, *priced = entries
        self._change(lambda state: state.check_batch(contexts, eligible, *priced))
        made: list[Decided] = []
        while True:
            current = TimeSlice()
            events, written = decide(slice(len(made), len(made) + size))
            made += events
            if len(made) == len(contexts):
                return made, written
            size = current.fit(len(events))
            await current.pause()
            self._require_same(state)

    def _require_same(self, state: ExperimentState) -> None:
        """Raise an `ApiError` with status 503 if the state was recovered since."""
        if self.live() is not state:
            raise service_unavailable("the experiment was recovered from its log during this request: try again")

    async def _decide_new(
        self,
        contexts: list[Any],
        keys: Sequence[str | None],
        known: dict[str, int],
        eligible: EligibleActions | None,
        subjects: Sequence[str | None],
        many: ManyActions | None,
        costs: Sequence[Any] | None,
        baselines: Baselines | None,
        label_costs: LabelCosts | None,
    ) -> list[Decided]:
        """Decide only for the contexts whose idempotency key is new."""
        decisions, hashed = {}, self.hashes.subjects(subjects)
        require_not_discarded(known)
        earlier, current = await self.read_decisions(list(known.values())), TimeSlice()
        for index, key in enumerate(keys):
            if key in known:
                await current.pause_if_over()
                decisions[index] = recorded = earlier[known[key]]
                among, cost, own, label_cost = _entries(index, eligible, costs, baselines, label_costs)
                asked = AskedBefore(contexts[index], among, hashed[index], many, cost, own, label_cost)
                require_same_request(asked, recorded, key, self.live(), self.hashes)
        new = [index for index in range(len(contexts)) if index not in decisions]
        if new:
            allowed = None if eligible is None else [eligible[index] for index in new]
            own, named, people = ([values[index] for index in new] for values in (contexts, keys, subjects))
            priced = None if costs is None else [costs[index] for index in new]
            watched = None if baselines is None else [baselines[index] for index in new]
            labels = None if label_costs is None else [label_costs[index] for index in new]
            made = await self.decide(own, named, allowed, people, many, priced, watched, labels)
            decisions |= dict(zip(new, made, strict=True))
        return [decisions[index] for index in range(len(contexts))]

    async def observe(self, seen: Observation) -> Learnt:
        """Learn the reward of a decision that the application made by itself, and commit both; once for each key."""
        hashed = None if seen.subject is None else self.hashes.subject(seen.subject)
        async with self._deciding, self._settling:
            known = self.live().keys.known([] if seen.key is None else [seen.key])
            require_not_discarded(known)
            if not known:
                at = self.now()
                made, outcomes = self._change(lambda state: (state.observe(seen, at, hashed), state.take_outcomes()))
                number, written = self.decisions(), self._group_commit.append(self, made, outcomes)
        for earlier in known.values():
            await self.flush()
            return Learnt(earlier, "repeated")
        await written
        return Learnt(number, "learnt")

    async def decide_together(self, decide: Callable[[ExperimentState, float], list[Decided]]) -> list[Decided]:
        """Make decisions of which each depends on those before, and commit them all at once."""
        async with self._deciding:
            at, before = self.now(), self.decisions()
            try:
                made = self._change(lambda state: decide(state, at))
            except ApiError as error:
                if self.decisions() != before:  # some were made, of which the log will not know
                    raise self._failed(error) from error
                raise
            written = self._group_commit.append(self, made)
        await written
        return made

    async def reward(self, given: Sequence[RewardOf], *, needs_receipts: bool = True) -> list[Learnt]:
        """Learn rewards and commit: all of them, or none if one is invalid or lacks its receipt."""
        answers: list[Learnt] = []
        for answer in await self._reward(given, needs_all=True, needs_receipts=needs_receipts):
            assert not isinstance(answer, ApiError)
            answers.append(answer)
        return answers

    async def reward_each(self, given: Sequence[RewardOf], *, needs_receipts: bool = True) -> list[Learnt | ApiError]:
        """Learn those rewards that are valid, and commit; the answer to each of the others is its error."""
        return await self._reward(given, needs_all=False, needs_receipts=needs_receipts)

    async def _reward(
        self, given: Sequence[RewardOf], *, needs_all: bool, needs_receipts: bool
    ) -> list[Learnt | ApiError]:
        self.live()  # a standby knows no receipts
        for _ in range(_ATTEMPTS):
            batch = RewardBatch(given, needs_all=needs_all)
            if self.receipts is not None:
                await batch.check_receipts(self.receipts, required=needs_receipts)
            settled = batch.find_settled(self.live().pending)
            if settled:
                await self._group_commit.flush(self)
            try:
                if settled:
                    batch.settle(settled, await self.settled.classify([given[place] for place in settled]))
                return await self._learn(batch)
            except NotPending:  # another request has just rewarded it
                continue
        raise service_unavailable("other requests reward the same decisions at the same time: try again")

    async def discard(self, keys: Sequence[str]) -> Discarded:
        """Drop the pending decisions of these keys and commit; a decision that is to come with one is refused."""
        async with self._deciding, self._settling:
            at = self.now()
            event, outcomes = self._change(lambda state: (state.discard(keys, at), state.take_outcomes()))
            written = self._group_commit.append(self, [event], outcomes) if event.keys else None
        if written is not None:
            await written
        return event

    async def _learn(self, batch: RewardBatch) -> list[Learnt | ApiError]:
        """Learn a batch, a large one in slices between which other requests run, decisions of this experiment too."""
        async with self._settling:
            state, current, written = self.live(), TimeSlice(), None
            while not self._change(lambda state: batch.validate(state, self.now(), current.is_over)):
                await current.pause()
                self._require_same(state)
            while events := self._change(lambda state: batch.learn(state, self.now(), current.is_over)):
                written = self._group_commit.append(self, events, state.take_outcomes())
                if batch.is_learnt():
                    break
                await current.pause()
                self._require_same(state)
        if written is not None:
            await written
        return batch.answers()

    async def change(
        self,
        what: str,
        *arguments: Any,
        sender: Sender | None = None,
        changes: Sequence[ChangeRow] = (),
        details: Mapping[str, Any] = MappingProxyType({}),
        **named: Any,
    ) -> None:
        """Apply a change, named after a method of `ExperimentState`, and commit.

        With a sender, a record of the change goes to the audit log as well, with further ``details`` of what is there
        afterwards; or ``changes`` if these are given.
        """
        async with self._deciding, self._settling:
            at, before = self.now(), _changeable_fields(self.live())
            event = self._change(lambda state: getattr(state, what)(*arguments, at, **named))
            after = _changeable_fields(self.live())
            growth = max(len(after["actions"]), 1) / max(len(before["actions"]), 1)  # estimate; each start measures it
            for slot in (self.live().slot, *self.live().shadows):
                slot.decision_seconds *= growth
            if sender is not None:
                subject = arguments[0] if arguments and isinstance(arguments[0], str | int) else None
                before, after = before | dict.fromkeys(details), after | dict(details)
                changes = [record_change(at, sender, self.name, what, subject, before, after)]
            written = self._group_commit.append(self, [event], self.live().take_outcomes(), changes)
        await written

    async def promote(self, name: str, *, force: bool = False, sender: Sender = SOMEONE) -> None:
        """Put a shadow in charge, or let the apprentice decide; the audit log gets what was known of it."""
        state = self.live()
        evidence, floors = describe_evidence(state.promotable(name), force=force), state.propensity_floors()
        await self.change("promote", name, sender=sender, details={"evidence": evidence}, force=force)
        if floors and not state.propensity_floors():
            self.report(
                f"{name} was promoted, and has no least probability of actions, which the policy before it had: "
                "comparisons with shadows and estimates from the log may find no support from now on"
            )

    async def add_shadow(self, request: NewShadow, sender: Sender = SOMEONE) -> None:
        learner = self.live().learner
        made = await asyncio.to_thread(learner_factory.build_policy, request.policy, learner.actions, learner.schema)
        seconds = await asyncio.to_thread(learner_factory.precompile, made)
        await self.change("add_shadow", request.name, request.policy, made, sender=sender)
        for shadow in self.live().shadows:
            if shadow.name == request.name:
                shadow.decision_seconds = seconds

    async def expire(self) -> None:
        """Expire the pending decisions whose deadline has passed."""
        while self.status == LIVE:
            async with self._settling:
                current = TimeSlice()
                event = self._change(lambda state, current=current: state.expire(self.now(), current.is_over))  # type: ignore[misc]
                if event is None:
                    return
                written = self._group_commit.append(self, [event], self.live().take_outcomes())
            await written

    async def finish_erasure(self) -> None:
        """Let learners replace the models that were fitted to erased contexts; decisions go on while others are fitted.

        No snapshot is saved before, so that a recovery begins with what the erased models were fitted to.
        """
        learners = [slot.learner for slot in (self.live().slot, *self.live().shadows)]
        for learner in learners:
            await asyncio.to_thread(learner.wait_for_erasure)
        await self.change("finish_erasure")

    async def read_decision(self, number: int) -> Decided:
        made = self.live().decisions
        if not 1 <= number <= made:
            message = f"unknown decision {number}: this experiment has made decisions 1 to {made}"
            raise ApiError(404, "unknown_decision", message)
        return (await self.read_decisions([number]))[number]

    async def read_decisions(self, numbers: Sequence[int]) -> dict[int, Decided]:
        """Decisions of the log by number; an `ApiError` if it has one of them no longer."""
        await self._group_commit.flush(self)
        found = await self._log.read(numbers)
        for number in numbers:
            if number not in found:
                raise not_in_log(number)
        return found

    async def flush(self) -> None:
        """Wait until all events so far are on disk."""
        await self._group_commit.flush(self)

    def info(self) -> ExperimentInfo:
        """Describe the experiment for the API; on standby, only as it was created."""
        state = self.state
        return ExperimentInfo(
            name=self.name,
            status=RETIRED if state and state.retired else self.status,
            created=format_timestamp(self.created),
            policy=state.slot.policy if state else self.spec.policy,
            actions=action_names(state.learner) if state else list(self.spec.actions),
            features=learner_factory.make_schema(self.spec).to_dict(),
            rewards=self.spec.rewards,
            counts=state.counts() if state else None,
            label_budget=state.learner.label_budget if state else None,
            labels_spent=state.learner.labels_spent if state and state.learner.label_budget is not None else None,
            shadows=[slot.to_message() for slot in state.compared_slots()] if state else [],
            apprentice=state.is_apprentice if state else self.spec.apprentice,
            events=self.last,
            snapshot=self.snapshots.last,
            messages=self.messages,
            retention=state.retention if state else self.spec.retention,
            alerts=self.monitor.alerts(state, self.now()) if state else [],
            spend=spend_info(state) if state else None,
            action_features=learner_factory.describe_action_features(self.spec),
            control=state.slot.control_info() if state else None,
            labels=labels_info(state.learner) if state else None,
        )

    # --- recovery and snapshots ---------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Restore the state from the latest sound snapshot and the log after it."""
        self.status = RECOVERING
        with contextlib.suppress(ApiError):
            await self._group_commit.flush(self)  # a commit that is still running belongs to the log
        started = time.perf_counter()
        secret = await self.store.secret()
        self.hashes = KeyedHashes(secret, self.id)
        self._recovery = recovery = Recovery(self.store, self.id, EXPERIMENT_FORMAT, self.report, salvage=self._salvage)
        try:
            state = await recovery.run()
        except LogDamaged as error:
            self.report(str(error), logging.ERROR)
            state = None
        self.snapshots.damaged |= recovery.damaged_snapshots
        if state is None:
            self.status = DAMAGED
            return
        (self.last, self.checksum), self.snapshots.last = recovery.position, recovery.snapshot_event
        for slot in (state.slot, *state.shadows):
            slot.decision_seconds = await asyncio.to_thread(learner_factory.precompile, slot.learner)
        state.take_outcomes()
        self._clock_offset = max(0.0, state.last_at - self._clock.now())
        self.receipts = Receipts(secret, self.id, state.receipt_parts) if self.spec.rewards.signed else None
        self.state, self.status, self.failure = state, LIVE, ""
        if (
            recovery.last_known_decision > state.decisions
        ):  # clients may have those decisions: don't reuse their numbers
            await self.change("skip_numbers", recovery.last_known_decision)
        if state.is_erasing:  # the process ended before it was finished
            await self.finish_erasure()
        took, after = time.perf_counter() - started, self.last - recovery.snapshot_event
        log.info("experiment %s: live after %.2f s, with %d events after the snapshot", self.name, took, after)

    def progress(self) -> str:
        """Name, and how far its recovery is."""
        done = self._recovery.replayed if self._recovery else 0
        return f"{self.name} ({done:,} events replayed)" if done else self.name

    async def save_snapshot(self) -> None:
        """Save a snapshot, if there are events since the latest one."""
        await self.snapshots.wait()
        if self.state is not None and self.status == LIVE:
            await self._group_commit.flush(self)
        if self.state is not None and self.status == LIVE and not self.state.is_erasing:
            await self.snapshots.save(self.state, LogPosition(self.last, self.checksum))


def _changeable_fields(state: ExperimentState) -> dict[str, Any]:
    """The parts of an experiment that requests can change, for the audit log."""
    return {
        "policy": state.slot.policy,
        "actions": action_names(state.learner),
        "shadows": [{"name": shadow.name, "policy": shadow.policy} for shadow in state.shadows],
        "retired": state.retired,
        "apprentice": state.is_apprentice,
        "retention": state.retention,
    }


def _entries(index: int, *lists: Sequence[Any] | None) -> list[Any]:
    """The entries of lists at one place; None of those that are None."""
    return [None if entries is None else entries[index] for entries in lists]


def first_snapshot(state: ExperimentState) -> bytes:
    """Serialize a new experiment; a ``ValueError`` if it could not be restored."""
    body = compress(EXPERIMENT_FORMAT.to_bytes(state))
    EXPERIMENT_FORMAT.load(decompress(body))
    return body
