"""All experiments of a store: start-up, leases, recovery, deadlines, snapshots and shutdown."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec

from releaf.service.errors import Problem, invalid, unavailable
from releaf.service.experiments import learner_factory as policies
from releaf.service.experiments.event_feeds import Watchers
from releaf.service.experiments.learner_factory import spec_of
from releaf.service.experiments.served_experiment import LIVE, RECOVERING, STANDBY, Clock, Running, first_snapshot
from releaf.service.experiments.state import Experiment
from releaf.service.log.group_commit import Desk
from releaf.service.messages import NewExperiment, PolicySpec
from releaf.service.settings import Settings
from releaf.service.store.base import ExperimentRow, KeyRow, LeaseLost, Store, StoreError

TEND_SECONDS = 0.5
REFRESH_SECONDS = 2.0
log = logging.getLogger("releaf.service")


class Hub:
    """What a service process knows and does.

    Parameters
    ----------
    store
        Where everything is kept.
    settings
        How to run.
    keys_changed
        Told the API keys at the start and about every other second.
    written
        Told how long a write took, in seconds, and how many events it had.
    failed
        Told of each write that failed.
    settled
        Told when there is much in memory that stays: after the start, and with each experiment taken up.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        keys_changed: Callable[[list[KeyRow]], None] = lambda keys: None,
        written: Callable[[float, int], None] = lambda seconds, events: None,
        failed: Callable[[], None] = lambda: None,
        settled: Callable[[], None] = lambda: None,
    ) -> None:
        self.store, self.settings, self.clock = store, settings, Clock()
        self._settled = settled
        self.desk = Desk(store, settings.commit_timeout, written, failed)
        self.experiments: dict[str, Running] = {}
        self.watchers = Watchers(settings.feed_limit)
        self.ready = False
        self.messages: list[str] = []
        self._keys_changed = keys_changed
        self._tending: asyncio.Task[None] | None = None
        self._refreshed = 0.0

    async def start(self) -> None:
        """Open the store and take up all experiments that no other process serves."""
        self.messages = await self.store.open()
        for message in self.messages:
            log.error("store: %s", message)
        self.desk.start()
        await self._refresh()
        for running in self.experiments.values():
            await self._tend_one(running)
        self._settled()
        self.ready = True
        self._tending = asyncio.create_task(self._tend(), name="hub")

    async def stop(self) -> None:
        """Finish what was begun, save a snapshot of each experiment, and give up the store."""
        self.ready = False
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.gather(self._tending, return_exceptions=True)
        try:
            await self.desk.stop()
            for running in self.experiments.values():
                try:
                    await running.snapshot_now()
                except Exception as error:  # the other experiments get theirs all the same
                    running.note(f"no snapshot at the end: {error!r}")
        finally:
            await self.store.close()

    def find(self, name: str) -> Running:
        """The experiment of that name."""
        if name not in self.experiments:
            raise Problem(404, "unknown_experiment", f"there is no experiment {name!r}")
        return self.experiments[name]

    async def create(self, spec: NewExperiment) -> Running:
        """Begin an experiment."""
        if spec.name in self.experiments:
            raise Problem(409, "name_taken", f"there is an experiment {spec.name!r} already, maybe a retired one")
        log.info("experiment %s: making a learner; where kernels have to be compiled, that takes minutes", spec.name)
        learner = await asyncio.to_thread(policies.new_learner, spec)
        _require_default(spec, learner)
        if spec.model is not None:
            _require_same_policy(spec.policy, spec_of(learner))
        kept = spec if spec.model is None else msgspec.structs.replace(spec, model=None, policy=spec_of(learner))
        try:
            told = msgspec.json.encode(kept)
            msgspec.json.decode(told, type=NewExperiment)
            body = await asyncio.to_thread(first_snapshot, Experiment(kept, learner))
        except (msgspec.MsgspecError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
            raise invalid(f"the experiment could not be read again after a restart: {error}") from None
        try:
            row = await self.store.create(spec.name, self.clock.now(), told, body)
        except KeyError:
            raise Problem(409, "name_taken", f"there is an experiment {spec.name!r} already") from None
        except StoreError as error:
            raise unavailable(f"the experiment could not be kept: {error}") from None
        running = self._add(row)
        await self._take_up(running)
        return running

    async def retire(self, running: Running) -> None:
        """Let an experiment decide no more."""
        if not running.live().retired:
            await running.change("retire")
        await running.flushed()
        await self.store.retire(running.id)

    # --- tending ------------------------------------------------------------------------------------------------

    def _add(self, row: ExperimentRow) -> Running:
        running = Running(row, self.store, self.desk, self.clock, self.settings)
        return self.experiments.setdefault(row.name, running)

    async def _refresh(self) -> None:
        """Learn of experiments and keys that other processes made."""
        self._refreshed = time.monotonic()
        for row in await self.store.experiments():
            if row.name not in self.experiments:
                self._add(row)
        self._keys_changed(await self.store.keys())

    async def _take_up(self, running: Running) -> None:
        """Serve an experiment if no other process does."""
        async with running.taking_up:
            if running.status not in (STANDBY, RECOVERING):
                return
            if await self.store.acquire(running.id):
                await running.load()
                if self.ready:
                    self._settled()
            elif not running.is_warm:  # so that a take-over need not wait for kernels
                running.status, running.is_warm = STANDBY, True
                await asyncio.to_thread(_warm_for, running.spec)
            else:
                running.status = STANDBY

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(TEND_SECONDS)
            try:
                await self._tend_once()
            except (StoreError, Problem) as error:
                log.warning("store: %s", error)
            except Exception:
                log.exception("tending failed")

    async def _tend_once(self) -> None:
        if time.monotonic() - self._refreshed >= REFRESH_SECONDS:
            await self._refresh()
        for running in list(self.experiments.values()):
            if running.status == LIVE and not self.store.holds(running.id):
                running.page_lost(LeaseLost("the lease is gone"))
        lost = any(running.status == RECOVERING for running in self.experiments.values())
        if lost:
            await self.store.ping()  # raises while nothing can be written, so memory is not made in vain
        for running in list(self.experiments.values()):
            await self._tend_one(running)

    async def _tend_one(self, running: Running) -> None:
        """Take an experiment up, or see to its deadlines; what goes wrong with it does not concern the others."""
        try:
            if running.status in (STANDBY, RECOVERING):
                await self._take_up(running)
            elif running.status == LIVE:
                await running.expire()
        except (StoreError, Problem) as error:
            log.warning("experiment %s: %s", running.name, error)
        except Exception:
            log.exception("experiment %s can't be tended", running.name)


def _warm_for(spec: NewExperiment) -> None:
    if spec.policy.name in policies.KNOWN:
        policies.warm(policies.build(spec.policy, tuple(spec.actions), policies.schema_of(spec)))


def _require_same_policy(given: PolicySpec, own: PolicySpec) -> None:
    """Refuse a policy beside a model that was made with another: the model goes on as it is."""
    if given == PolicySpec():
        return
    other = {name: value for name, value in given.parameters.items() if own.parameters.get(name) != value}
    if given.name != own.name or other:
        differs = f"{given.name}" if given.name != own.name else f"{other}"
        raise invalid(f"policy says {differs}, but the model is a {own.name} made with {own.parameters}: leave it out")


def _require_default(spec: NewExperiment, learner: object) -> None:
    """Refuse a default reward that the learner would refuse when the first deadline passes."""
    rules = spec.rewards
    if rules.default is None:
        return
    if rules.within_seconds is None:
        raise invalid("rewards.default needs rewards.within_seconds: without a deadline it never comes about")
    state = Experiment(spec, learner)
    try:
        learner.require_reward(0, state.actions.plain_reward(1, rules.default))  # type: ignore[attr-defined]
    except (ValueError, TypeError) as error:
        raise invalid(f"rewards.default: {error}") from None
