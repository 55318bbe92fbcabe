"""`MixtureEngine`: samples and models of an AdaptiveReleaf, and the schedule on which models are fitted to samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Self

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.decision_step import FIRST_LEVELS, learn_again, set_levels, weigh_experts
from releaf.core.adaptive.fit_jobs import FitJob
from releaf.core.adaptive.fitting import Fit, ensure_relevance, fit, least_leaf
from releaf.core.adaptive.initial_state import FIRST_FIT, FIRST_ROWS, Settings, new_sample, new_state
from releaf.core.adaptive.mixture import expert_weights
from releaf.core.adaptive.sample import KEYS
from releaf.core.adaptive.saved_models import load_models, saved_models
from releaf.core.adaptive.state import (
    ALWAYS,
    DUE,
    DUE_NOW,
    EFFECT,
    FITTED,
    FITTED_FOR,
    FORGET_TO,
    LABEL_COST,
    LABELS_LENGTH,
    LEAF,
    LEARNT,
    NEXT,
    NONE,
    RATE,
    REQUESTED,
    ROWS,
    RULE,
    SEEN,
    SINCE_TREND,
    STARTED,
    STARTED_FOR,
    STARTED_LEAF,
    WINDOW,
    Model,
    Sample,
)
from releaf.core.adaptive.state_check import MOST_AHEAD, check_state
from releaf.core.runtime.spending import SPENDING_LENGTH

# A fit is due each time an action's rewards have grown by a factor: the more there are, the less one changes.
GROWTHS = ((512, 1.25), (4096, 1.5), (math.inf, 2.0))  # rewards up to which it holds, and the factor
GROWTH_OF_FEW = 1.1  # the same where rewards are requested: each costs more than a fit
LEAST_GROWTH_OF_FEW = 4
AT_ONCE = 1536  # values in a sample up to which a fit is done at once, not in a thread
# A fit in a thread takes effect after a reward for so many rows, which take longer than the fit; one that is due before
# its time takes effect sooner, because the model is wrong meanwhile.
ROWS_PER_LAG, ROWS_PER_SHORT_LAG = 16, 128
SAMPLE_BYTES = 64 << 20  # of the samples of all actions
MOST_ROWS, LEAST_MOST_ROWS = 1 << 18, 512
MOST_WINDOW = LEAST_MOST_ROWS * 64  # rewards of an action that ``forget`` may keep
MOST_HELD_OUT = 4096  # rows of a log from which the weights of the experts follow
EARLIER_WATCH = 2  # fields of a sample's ``watch`` in files of before trends were watched
ROWS_OF = ("contexts", "rewards", "keys", "numbers", "steps")  # arrays of a sample with one entry a row
_FITTED_TO = ROWS_OF[:3]  # those that a model follows from
Mapper = Callable[[Callable[[Any], Any], list[Any]], Iterable[Any]]  # applies a function to each task, as map does


def most_rows(features: int, actions: int) -> int:
    """Most rows of a sample, so that the samples of all actions take ``SAMPLE_BYTES``."""
    return int(np.clip(SAMPLE_BYTES // ((4 * features + 24) * actions), LEAST_MOST_ROWS, MOST_ROWS))


class MixtureEngine:
    """State, samples and models of a learner."""

    def __init__(self, settings: Settings, actions: int) -> None:
        self.settings = settings
        self.state = new_state(settings, actions)
        self.samples = [new_sample(settings) for _ in range(actions)]
        self.models: list[Model] = []
        self._jobs: dict[int, FitJob] = {}
        self._outdated: set[int] = set()  # actions whose models `finish_refits` is to replace
        self._build_models()

    def _build_models(self, saved: Mapping[int, Model] | None = None) -> None:
        """Build the models that were not saved from their samples, and resume fits under way."""
        self._jobs.clear()
        known = saved or {}
        self.models = [
            known[action] if action in known else fit(self.settings, self._fitted(sample))
            for action, sample in enumerate(self.samples)
        ]
        self._connect()
        for action, sample in enumerate(self.samples):
            if action not in known:
                self._learn_later_rows(action)
            if sample.counts[STARTED] != NONE:
                self._submit(action)

    def rebuild(self) -> None:
        """Build all models from samples that were replaced; a sample that has no fit yet gets one of all its rows."""
        self._connect_samples()
        for action, sample in enumerate(self.samples):
            counts = sample.counts
            if counts[FITTED] == 0 and counts[ROWS] >= FIRST_FIT and counts[STARTED] == NONE:
                self._schedule(action)
                self._thin(sample)
                self._settle(sample)
        self._build_models()

    def fit_rows(self, mapper: Mapper = map) -> None:
        """Fit models to the samples of a log, all but their last rows, from which the weights of the experts follow.

        Online a reward is predicted before it is learnt, and the errors weigh the experts. A log is fitted at once, so
        its last rows play that part: models that were fitted to all others predict and learn them, one by one.
        """
        self._connect_samples()
        for action, sample in enumerate(self.samples):
            rows = int(sample.counts[ROWS])
            if rows >= FIRST_FIT:
                self._schedule(action, held_out=min(MOST_HELD_OUT, rows // 4, rows - FIRST_FIT))
                self._thin(sample)
                self._settle(sample)
        fits = mapper(partial(_fitted_arrays, self.settings), [self._fitted(sample) for sample in self.samples])
        self.models = [Model(**arrays) for arrays in fits]
        self._connect()
        self._weigh_experts()

    def _weigh_experts(self) -> None:
        """Add the losses of the experts on the rows after those of a fit, evenly from all actions, and learn these."""
        later = [slice(int(sample.counts[FITTED]), int(sample.counts[ROWS])) for sample in self.samples]
        counts = [rows.stop - rows.start for rows in later]
        shares = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
        order = np.argsort(shares, kind="stable")
        contexts, rewards = (
            np.concatenate([getattr(sample, name)[rows] for sample, rows in zip(self.samples, later, strict=True)])
            for name in ("contexts", "rewards")
        )
        taken = np.repeat(np.arange(len(counts)), counts)
        weigh_experts(self.state.pointer_table, contexts[order], rewards[order], taken[order])

    def set_seen(self, contexts: Array, keys: Array, rate: int) -> None:
        """Replace the sample of contexts by the different ones of these, and set the levels from it."""
        keys, first = np.unique(keys, return_index=True)
        while int((keys < KEYS >> rate).sum()) > SEEN:
            rate += 1
        kept = keys < KEYS >> rate
        count = int(kept.sum())
        self.state.seen[:count], self.state.seen_keys[:count] = contexts[first[kept]], keys[kept]
        self.state.seen_steps[:] = 0
        self.state.seen_counts[:] = count, rate
        if count >= FIRST_LEVELS:
            set_levels(self.state.pointer_table)

    def relevance(self) -> tuple[Array, Array]:
        """Variance that each feature explains of each action's estimates over contexts, and the certainty of that."""
        seen = self.state.seen[: int(self.state.seen_counts[0])]
        for model in self.models:
            ensure_relevance(self.settings, model, seen)
        strengths, certainties = (
            np.stack([getattr(model, name) for model in self.models]) for name in ("strengths", "certainties")
        )
        return strengths, certainties

    def _connect(self) -> None:
        """Write the addresses of samples and models into the state."""
        self._connect_samples()
        self.state.models[:] = [model.address for model in self.models]

    def _connect_samples(self) -> None:
        self.state.samples[:] = [sample.address for sample in self.samples]

    @property
    def most_rows(self) -> int:
        """Most rows of a sample."""
        return most_rows(self.settings.features, len(self.samples))

    # --- fitting ----------------------------------------------------------------------------------------------

    def do_what_is_due(self) -> bool:
        """Grow samples that are full, and start or finish fits that are due; returns whether a model changed."""
        changed = False
        for action in range(len(self.samples)):
            if not self.samples[action].counts[DUE_NOW]:
                continue
            self._grow_if_full(action)
            counts = self.samples[action].counts
            if counts[STARTED] == NONE and counts[LEARNT] >= counts[NEXT]:
                self._start_fit(action)
            if counts[STARTED] != NONE and counts[LEARNT] >= counts[EFFECT]:
                self._finish_fit(action)
                changed = True
            counts[DUE_NOW] = 0
        self.state.clock[DUE] = 0
        return changed

    def _grow_if_full(self, action: int) -> None:
        """Double the capacity of a full sample, before anything that may fail."""
        sample = self.samples[action]
        if sample.counts[ROWS] >= len(sample.rewards):
            self.samples[action] = sample.resized("rows", 2 * len(sample.rewards))
            self.state.samples[action] = self.samples[action].address

    def _start_fit(self, action: int) -> None:
        sample, forgets = self.samples[action], self._forget(action)
        self._jobs.pop(action, None)  # of a fit that a drift made obsolete
        counts = sample.counts
        self._schedule(action)
        at_once = forgets or counts[STARTED] * self.settings.features <= AT_ONCE
        rows_per_lag = ROWS_PER_SHORT_LAG if self._is_before_time(counts) else ROWS_PER_LAG
        counts[EFFECT] = counts[LEARNT] + (0 if at_once else int(counts[STARTED]) // rows_per_lag)
        if counts[EFFECT] > counts[LEARNT]:
            self._submit(action)

    def _schedule(self, action: int, held_out: int = 0) -> None:
        """Set what the next fit of a sample follows from: its rows but the last, and the levels as they are now."""
        sample = self.samples[action]
        counts, rows = sample.counts, int(sample.counts[ROWS])
        sample.next_knots[...], sample.next_levels[...] = self.state.fresh_knots, self.state.fresh_levels
        count, total = self.state.reward_sums
        sample.offsets[1] = (total + 1.0) / (count + 2.0)
        used = rows - held_out
        counts[STARTED] = used
        counts[STARTED_FOR] = sample.numbers[used] if held_out else counts[LEARNT]
        while int(self._kept(sample).sum()) > self.most_rows:
            counts[RATE] += 1
        counts[STARTED_LEAF] = least_leaf(used, len(self.samples), expert_weights(self.state, action))

    def _forget(self, action: int) -> bool:
        """Remove the rows from before a drift; returns whether there were any. The fit that follows is not put off."""
        sample = self.samples[action]
        counts, rows = sample.counts, int(sample.counts[ROWS])
        later = sample.numbers[:rows] >= counts[FORGET_TO]
        left = int(later.sum())
        if left == rows:
            return False
        for name in ROWS_OF:
            array = getattr(sample, name)
            array[:left] = array[:rows][later]
        counts[[ROWS, FITTED]] = left, 0
        if left == counts[LEARNT] - counts[FORGET_TO]:  # none is missing
            counts[RATE] = 0
        return True

    def start_refits(self) -> None:
        """Start to fit all models anew, with the levels as they are now; those of few rows take effect at once.

        The models in use stay until `finish_refits`, and no other fit starts meanwhile, unless a drift brings one on.
        """
        self._outdated = set(range(len(self.samples)))
        for action, sample in enumerate(self.samples):
            counts = sample.counts
            self._jobs.pop(action, None)
            if counts[ROWS] < FIRST_FIT:
                counts[[FITTED, STARTED]] = 0, NONE
                sample.knots[...] = sample.next_knots[...] = self.state.fresh_knots
                sample.levels[...] = sample.next_levels[...] = self.state.fresh_levels
                self._replace(action, fit(self.settings, self._fitted(sample)))
            else:
                self._schedule(action)
                counts[EFFECT] = counts[LEARNT] + MOST_AHEAD
                self._submit(action)

    def wait_for_fits(self) -> None:
        """Wait for the fits under way, without a change."""
        for job in list(self._jobs.values()):
            job.result()

    def finish_refits(self) -> None:
        """Replace the models of before `start_refits` that are still in use."""
        for action in sorted(self._outdated):
            if self.samples[action].counts[STARTED] == NONE:  # a drift made the fit obsolete
                self._start_fit(action)
            self._finish_fit(action)

    def _submit(self, action: int) -> None:
        """Fit in a thread. Rows that a fit uses stay as they are until it takes effect."""
        settings, given = self.settings, self._started(self.samples[action])
        with suppress(RuntimeError):  # at the end of a program no thread starts any more: then it is fitted when due
            self._jobs[action] = FitJob(lambda: fit(settings, given))

    def _finish_fit(self, action: int) -> None:
        sample, job = self.samples[action], self._jobs.pop(action, None)
        model = job.result() if job else fit(self.settings, self._started(sample))
        self._thin(sample)
        self._settle(sample)
        self._replace(action, model)

    def _replace(self, action: int, model: Model) -> None:
        self.models[action] = model
        self.state.models[action] = model.address
        self._outdated.discard(action)
        self._learn_later_rows(action)

    def _settle(self, sample: Sample) -> None:
        """Note that the fit under way has become the model's, and when the next one is due."""
        counts = sample.counts
        counts[[FITTED_FOR, LEAF]], counts[STARTED] = counts[[STARTED_FOR, STARTED_LEAF]], NONE
        sample.knots[...], sample.levels[...] = sample.next_knots, sample.next_levels
        sample.offsets[0] = sample.offsets[1]
        counts[NEXT] = self._usual_next(counts)

    def _usual_next(self, counts: Array) -> int:
        """Rewards at which the next fit is due, unless something surprises before."""
        return int(counts[FITTED_FOR]) + self._growth(int(counts[FITTED_FOR] - counts[FORGET_TO]))

    def _is_before_time(self, counts: Array) -> bool:
        return int(counts[LEARNT]) < self._usual_next(counts)

    def _growth(self, rewards: int) -> int:
        """Rewards from one fit to the next."""
        if self.settings.params[RULE] != ALWAYS:
            grown = max(int(rewards * (GROWTH_OF_FEW - 1.0)) + 1, LEAST_GROWTH_OF_FEW)
        else:
            growth = next(growth for most, growth in GROWTHS if rewards <= most)
            grown = max(int(rewards * (growth - 1.0)) + 1, FIRST_FIT)
        window = int(self.settings.params[WINDOW])
        return min(grown, self.most_rows // 2, window // 2 + 1 if window > 0 else grown)

    def _kept(self, sample: Sample) -> Array:
        """Which of its rows the fit under way uses."""
        counts = sample.counts
        kept: Array = sample.keys[: counts[STARTED]] < KEYS >> int(counts[RATE])
        window = int(self.settings.params[WINDOW])
        if window > 0:
            kept &= sample.numbers[: counts[STARTED]] >= counts[STARTED_FOR] - window
        return kept

    def _started(self, sample: Sample) -> Fit:
        """What the fit under way follows from."""
        counts, kept = sample.counts, self._kept(sample)
        contexts, rewards, keys = (getattr(sample, name)[: len(kept)][kept] for name in _FITTED_TO)
        return Fit(
            contexts,
            rewards,
            keys,
            sample.next_knots.copy(),
            sample.next_levels.copy(),
            float(sample.offsets[1]),
            int(counts[STARTED_LEAF]),
        )

    def _fitted(self, sample: Sample) -> Fit:
        """What the current model follows from, before later rows."""
        counts = sample.counts
        contexts, rewards, keys = (getattr(sample, name)[: counts[FITTED]] for name in _FITTED_TO)
        return Fit(
            contexts,
            rewards,
            keys,
            sample.knots,
            sample.levels,
            float(sample.offsets[0]),
            max(int(counts[LEAF]), 1),
        )

    def fit_of(self, action: int, rows: Array) -> Fit:
        """What a model of some rows of an action would follow from, with the levels of its model."""
        sample = self.samples[action]
        return self._fitted(sample)._replace(
            contexts=sample.contexts[rows],
            rewards=sample.rewards[rows],
            keys=sample.keys[rows],
            knots=sample.knots.copy(),
            levels=sample.levels.copy(),
        )

    def _thin(self, sample: Sample) -> None:
        """Remove the rows that the fit under way did not use."""
        kept, stored = self._kept(sample), int(sample.counts[ROWS])
        count, later = int(kept.sum()), stored - len(kept)
        if count < len(kept):
            for name in ROWS_OF:
                array = getattr(sample, name)
                array[: count + later] = np.concatenate([array[: len(kept)][kept], array[len(kept) : stored]])
            sample.counts[ROWS] = count + later
        sample.counts[FITTED] = count

    def _learn_later_rows(self, action: int) -> None:
        """Update an action's model with the rows that came after those it was fitted to."""
        sample = self.samples[action]
        first, last = int(sample.counts[FITTED]), int(sample.counts[ROWS])
        if first < last:
            learn_again(self.state.pointer_table, sample.contexts[first:last], sample.rewards[first:last], action)

    # --- actions ----------------------------------------------------------------------------------------------

    def with_actions(self, settings: Settings, kept: list[int], new: int = 0) -> MixtureEngine:
        """Return an engine with some of the actions, then new ones; samples and models are shared."""
        other = object.__new__(MixtureEngine)
        other.settings = settings
        other.samples = [self.samples[action] for action in kept] + [new_sample(settings) for _ in range(new)]
        other.models = [self.models[action] for action in kept]
        other.models += [fit(settings, self._fitted(sample)) for sample in other.samples[len(kept) :]]
        other._jobs = {kept.index(action): job for action, job in self._jobs.items() if action in kept}
        other._outdated = {kept.index(action) for action in self._outdated if action in kept}
        arrays = self.state.learnt_arrays()
        losses = np.zeros((len(kept) + new, arrays["losses"].shape[1]))
        losses[: len(kept)] = arrays["losses"][kept]
        other.state = new_state(settings, len(kept) + new).replace(**(arrays | {"losses": losses}))
        other._connect()
        return other

    # --- saving -----------------------------------------------------------------------------------------------

    def learnt_arrays(self) -> dict[str, Array]:
        """Copy what is saved: the summary of the contexts, and the samples of all actions one after the other."""
        arrays = self.state.learnt_arrays()
        for name in Sample.layout.names("learnt"):
            parts = [getattr(sample, name) for sample in self.samples]
            if name in ROWS_OF:
                parts = [part[: sample.counts[ROWS]] for part, sample in zip(parts, self.samples, strict=True)]
                arrays[f"sample_{name}"] = np.concatenate(parts)
            else:
                arrays[f"sample_{name}"] = np.stack(parts)
        return arrays

    def fitted_arrays(self) -> dict[str, Array]:
        """Copy the models that take long to fit, which ``from_arrays`` need not build if it gets them too."""
        return saved_models(self.settings, self.samples, self.models)

    @classmethod
    def without_models(cls, settings: Settings, actions: int, arrays: Mapping[str, Array]) -> Self:
        """Build an engine for merging from what ``learnt_arrays`` returned; it can't decide."""
        engine = object.__new__(cls)
        engine.settings = settings
        arrays = _upgraded(arrays)
        engine.state = new_state(settings, actions).with_learnt(arrays)
        engine.samples = _samples_from(settings, actions, arrays)
        engine.models, engine._jobs, engine._outdated = [], {}, set()
        return engine

    @classmethod
    def from_arrays(cls, settings: Settings, actions: int, arrays: Mapping[str, Array]) -> Self:
        """Build an engine from what ``learnt_arrays`` returned. Raises a ValueError where that is not sound."""
        engine = cls.without_models(settings, actions, arrays)
        check_state(settings, engine.state, engine.samples)
        engine._build_models(load_models(settings, engine.samples, arrays))
        return engine


def _fitted_arrays(settings: Settings, given: Fit) -> dict[str, Array]:
    """Arrays of a model, which can be sent between processes."""
    return dict(fit(settings, given).items())


def _upgraded(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays of a file, with those that files of earlier versions lack: all of them, or the file is damaged."""
    arrays = {"spending": np.zeros(SPENDING_LENGTH), **arrays}
    if "labels" not in arrays:  # each request cost one ordinary label
        arrays["labels"] = np.zeros(LABELS_LENGTH)
        arrays["labels"][LABEL_COST] = arrays["clock"][REQUESTED]
    if "seen_steps" in arrays or "sample_steps" in arrays:
        return arrays
    counts = {"seen_steps": len(arrays["seen_keys"]), "sample_steps": len(arrays["sample_keys"])}
    steps = {name: np.zeros(count, dtype=np.int64) for name, count in counts.items()}
    watch = arrays["sample_watch"]
    if watch.ndim == 2 and watch.shape[1] == EARLIER_WATCH:
        watch = np.pad(watch, ((0, 0), (0, SINCE_TREND + 1 - EARLIER_WATCH)))
    return {**arrays, **steps, "sample_watch": watch}


def _samples_from(settings: Settings, actions: int, arrays: Mapping[str, Array]) -> list[Sample]:
    counts = arrays["sample_counts"]
    if counts.shape != (actions, len(new_sample(settings).counts)) or counts.dtype != np.int64:
        raise ValueError("its sample_counts contradict the rest")
    rows = counts[:, ROWS]
    if (rows < 0).any() or rows.sum() != len(arrays["sample_rewards"]):
        raise ValueError("its sample_counts contradict the rest")
    ends, samples = np.cumsum(rows), []
    for action in range(actions):
        own = {}
        for name in Sample.layout.names("learnt"):
            array = arrays[f"sample_{name}"]
            own[name] = array[ends[action] - rows[action] : ends[action]] if name in ROWS_OF else array[action]
        empty = new_sample(settings)
        capacity = max(FIRST_ROWS, 1 << int(rows[action]).bit_length())
        loaded = empty.with_learnt({**own, **{name: _padded(own[name], empty, name) for name in ROWS_OF}})
        samples.append(loaded.resized("rows", capacity))
    return samples


def _padded(array: Array, empty: Sample, name: str) -> Array:
    """An array of rows with at least one row, as an empty sample has."""
    return array if len(array) else getattr(empty, name)[:1].copy()
