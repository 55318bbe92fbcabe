"""Registry of experiments: start-up, leases, recovery, deadlines, snapshots and shutdown."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec

from releaf.policy import ServedPolicy
from releaf.service.errors import ApiError, StoreError, invalid_request, service_unavailable
from releaf.service.experiments import learner_factory
from releaf.service.experiments.apprentice_mode import require_able_to_watch
from releaf.service.experiments.change_records import (
    SOMEONE,
    Sender,
    change_message,
    record_creation,
    record_start,
)
from releaf.service.experiments.clock import MonotonicClock
from releaf.service.experiments.decision_export import ExportLimit
from releaf.service.experiments.decision_records import ScanLimit
from releaf.service.experiments.event_feeds import EventFeeds
from releaf.service.experiments.learner_factory import policy_spec
from releaf.service.experiments.retention import RetentionRunner
from releaf.service.experiments.served_experiment import LIVE, RECOVERING, STANDBY, ServedExperiment, first_snapshot
from releaf.service.experiments.state import ExperimentState
from releaf.service.log.group_commit import GroupCommit
from releaf.service.messages import ChangePage, NewExperiment, PolicySpec
from releaf.service.settings import ServiceSettings
from releaf.service.store.base import EventStore, ExperimentRow, KeyRow, LeaseLost

MAINTENANCE_SECONDS = 0.5
REFRESH_SECONDS = 2.0
MAX_EXPORTS, MAX_EXPORTS_EACH = 4, 2  # at the same time, of all and of one key: each takes a process
MAX_SCANS = 8  # filtered lists that run or wait
log = logging.getLogger("releaf.service")


class ExperimentRegistry:
    """All experiments of a service process.

    Parameters
    ----------
    store
        Where the experiments are stored.
    settings
        Settings of the process.
    on_keys
        Called with the API keys at the start, and about every two seconds.
    on_commit
        Called after each commit with its duration in seconds and its number of events.
    on_commit_failure
        Called after each failed commit.
    on_loaded
        Called when long-lived objects were created: after the start, and after each experiment that becomes live.
    clock
        Clock of events and deadlines.
    """

    def __init__(
        self,
        store: EventStore,
        settings: ServiceSettings,
        on_keys: Callable[[list[KeyRow]], None] = lambda keys: None,
        on_commit: Callable[[float, int], None] = lambda seconds, events: None,
        on_commit_failure: Callable[[], None] = lambda: None,
        on_loaded: Callable[[], None] = lambda: None,
        clock: MonotonicClock | None = None,
    ) -> None:
        self.store, self.settings, self.clock = store, settings, clock or MonotonicClock()
        self._on_loaded = on_loaded
        self.group_commit = GroupCommit(store, settings.write_timeout, on_commit, on_commit_failure)
        self.experiments: dict[str, ServedExperiment] = {}
        self.feeds = EventFeeds(settings.feed_limit, settings.total_feed_limit)
        self.scans = ScanLimit(MAX_SCANS)
        self.exports = ExportLimit(MAX_EXPORTS, MAX_EXPORTS_EACH)
        self.started = False  # the store is open, and experiments and keys are known
        self.ready = False  # all experiments are live or on standby, as far as they can be
        self.draining = False  # after SIGTERM: all requests are answered, but no more should be sent
        self.messages: list[str] = []
        self._on_keys = on_keys
        self._maintenance: asyncio.Task[None] | None = None
        self._retention: dict[str, RetentionRunner] = {}
        self._refreshed = 0.0
        self._asked_at: float | None = None  # when the store was asked for experiments and keys, until it answers

    async def start(self) -> None:
        """Open the store, and serve all experiments that no other process serves."""
        self.messages = await self.store.open()
        for message in self.messages:
            log.error("store: %s", message)
        await record_start(self.store, self.settings, self.clock.now())
        self.group_commit.start()
        await self._refresh()
        for experiment in self.experiments.values():
            experiment.status = RECOVERING
        self.started = True
        for experiment in list(self.experiments.values()):
            await self._maintain_one(experiment)
        self._on_loaded()
        self.ready = True
        self._maintenance = asyncio.create_task(self._maintain(), name="maintenance of experiments")

    async def stop(self) -> None:
        """Commit all events, save a snapshot of each experiment, and close the store."""
        self.ready = self.started = False
        if self._maintenance is not None:
            self._maintenance.cancel()
            await asyncio.gather(self._maintenance, return_exceptions=True)
        try:
            await self.group_commit.stop()
            for experiment in self.experiments.values():
                try:
                    await experiment.save_snapshot()
                except Exception as error:  # must not keep the other experiments from saving theirs
                    experiment.report(f"saving a snapshot at shutdown failed: {error!r}")
        finally:
            await self.store.close()

    def silence(self) -> float:
        """Seconds for which a write or a read has been waiting for the store."""
        reading = 0.0 if self._asked_at is None else time.monotonic() - self._asked_at
        return max(self.group_commit.lag()[1], reading)

    def find(self, name: str) -> ServedExperiment:
        """Return the experiment of this name; an error with status 404 if there is none."""
        if name not in self.experiments:
            raise ApiError(404, "unknown_experiment", f"unknown experiment {name!r}")
        return self.experiments[name]

    async def create(self, spec: NewExperiment, sender: Sender = SOMEONE) -> ServedExperiment:
        if spec.name in self.experiments:
            raise ApiError(
                409,
                "name_taken",
                f"the experiment name {spec.name!r} is taken, perhaps by a retired one: choose another",
            )
        if spec.rewards.signed is None:
            rewards = msgspec.structs.replace(spec.rewards, signed=self.settings.needs_keys)
            spec = msgspec.structs.replace(spec, rewards=rewards)
        log.info("experiment %s: building its learner; this takes minutes if kernels must be compiled", spec.name)
        learner = await asyncio.to_thread(learner_factory.make_learner, spec)
        _validate_default(spec, learner)
        if spec.apprentice:
            require_able_to_watch(learner)
        if spec.model is not None:
            _validate_policy(spec.policy, policy_spec(learner))
        stored = spec if spec.model is None else msgspec.structs.replace(spec, model=None, policy=policy_spec(learner))
        try:
            content = msgspec.json.encode(stored)
            msgspec.json.decode(content, type=NewExperiment)
            body = await asyncio.to_thread(first_snapshot, ExperimentState(stored, learner))
        except (msgspec.MsgspecError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
            raise invalid_request(f"the experiment could not be restored after a restart: {error}") from None
        try:
            at = self.clock.now()
            change = record_creation(at, sender, stored, spec.model)
            row = await self.store.create(spec.name, at, content, body, change)
        except KeyError:
            raise ApiError(409, "name_taken", f"the experiment name {spec.name!r} is taken: choose another") from None
        except StoreError as error:
            raise service_unavailable(f"creating the experiment failed: {error}") from None
        experiment = self._add(row)
        await self._activate(experiment)
        return experiment

    async def retire(self, experiment: ServedExperiment, sender: Sender = SOMEONE) -> None:
        """Retire an experiment: it makes no more decisions."""
        if not experiment.live().retired:
            await experiment.change("retire", sender=sender)
        await experiment.flush()
        await self.store.retire(experiment.id)

    async def list_changes(self, experiment: str | None, before: int, limit: int) -> ChangePage:
        """A page of the audit log, the latest change first."""
        rows = await self.store.changes(experiment, before, limit + 1)
        page = [change_message(row) for row in rows[:limit]]
        return ChangePage(page, page[-1].id if len(rows) > limit else None)

    # --- maintenance --------------------------------------------------------------------------------------------

    def _add(self, row: ExperimentRow) -> ServedExperiment:
        experiment = ServedExperiment(row, self.store, self.group_commit, self.clock, self.settings)
        return self.experiments.setdefault(row.name, experiment)

    async def _refresh(self) -> None:
        """Read experiments and keys that other processes added."""
        self._refreshed = self._asked_at = time.monotonic()
        try:
            rows, keys = await self.store.experiments(), await self.store.keys()
        finally:
            self._asked_at = None
        for row in rows:
            if row.name not in self.experiments:
                self._add(row)
        self._on_keys(keys)

    async def _activate(self, experiment: ServedExperiment) -> None:
        """Serve an experiment if its lease is free."""
        async with experiment.activation_lock:
            if experiment.status not in (STANDBY, RECOVERING):
                return
            if await self.store.acquire(experiment.id):
                await experiment.recover()
                if self.ready:
                    self._on_loaded()
                return
            if experiment.status == RECOVERING:
                log.warning("experiment %s: another process holds its lease: this one stands by", experiment.name)
                experiment.status = STANDBY
            if not experiment.is_precompiled:  # so that a take-over does not wait for JIT
                experiment.is_precompiled = True
                await asyncio.to_thread(_precompile_for, experiment.spec)

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(MAINTENANCE_SECONDS)
            try:
                await self._maintain_once()
            except (StoreError, ApiError) as error:
                log.warning("store: %s", error)
            except Exception:
                log.exception("maintenance failed")

    async def _maintain_once(self) -> None:
        self._report_clock_jump()
        if time.monotonic() - self._refreshed >= REFRESH_SECONDS:
            await self._refresh()
        for experiment in list(self.experiments.values()):
            if experiment.status == LIVE and not self.store.holds(experiment.id):
                experiment.commit_failed(
                    LeaseLost("the lease was lost: another process has taken it over, or may do so")
                )
        if any(experiment.status == RECOVERING for experiment in self.experiments.values()):
            await self.store.ping()  # raises while the store is not writable: recovery would be in vain
        for experiment in list(self.experiments.values()):
            await self._maintain_one(experiment)

    def _report_clock_jump(self) -> None:
        jump = self.clock.find_jump()
        if jump is not None:
            log.warning(
                "the machine's clock jumped by %+.1f s: times and deadlines of this process go on as before, until it "
                "restarts. Check that the clock is right before a restart, which adopts it",
                jump,
            )

    async def _maintain_one(self, experiment: ServedExperiment) -> None:
        """Activate an experiment, or expire its pending decisions; an error does not affect other experiments."""
        try:
            if experiment.status in (STANDBY, RECOVERING):
                await self._activate(experiment)
            elif experiment.status == LIVE:
                await experiment.expire()
                if experiment.state is not None:
                    await experiment.monitor.read_if_due(experiment.state)
                await self._retention.setdefault(experiment.name, RetentionRunner(experiment)).run_if_due()
        except (StoreError, ApiError) as error:
            log.warning("experiment %s: %s", experiment.name, error)
        except Exception:
            log.exception("experiment %s: maintenance failed", experiment.name)


def _precompile_for(spec: NewExperiment) -> None:
    if spec.policy.name in learner_factory.POLICIES:
        actions, schema = learner_factory.make_actions(spec), learner_factory.make_schema(spec)
        learner_factory.precompile(learner_factory.build_policy(spec.policy, actions, schema))


def _validate_policy(requested: PolicySpec, own: PolicySpec) -> None:
    """Reject a policy that differs from that of the model: the model continues unchanged."""
    if requested == PolicySpec():
        return
    other = {name: value for name, value in requested.parameters.items() if own.parameters.get(name) != value}
    if requested.name != own.name or other:
        differs = f"{requested.name}" if requested.name != own.name else f"{other}"
        raise invalid_request(
            f"policy is {differs}, but the model is a {own.name} with {own.parameters}: leave the policy out"
        )


def _validate_default(spec: NewExperiment, learner: ServedPolicy) -> None:
    """Reject a default reward that the learner would reject when the first deadline passes."""
    rules = spec.rewards
    if rules.default is None:
        return
    if rules.within_seconds is None:
        raise invalid_request("rewards.default needs rewards.within_seconds: without a deadline it is never used")
    state = ExperimentState(spec, learner)
    try:
        learner.check_reward(0, state.actions.normalize_reward(1, rules.default))
    except (ValueError, TypeError) as error:
        raise invalid_request(f"rewards.default: {error}") from None
