"""Learner slot: a learner of an experiment, in charge or as a shadow, with its off-policy estimate."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct

from releaf import from_bytes
from releaf.policy import ServedPolicy
from releaf.service.experiments.shadow_estimate import ShadowEstimate
from releaf.service.log.events import ExperimentAction
from releaf.service.messages import ControlInfo, PolicySpec, ShadowInfo


class SlotRecord(Struct, array_like=True):
    """A learner slot in a snapshot."""

    name: str
    policy: PolicySpec
    since: int
    offset: int
    estimate: ShadowEstimate
    learner: bytes


class LearnerSlot:
    """A learner that takes part in every decision of an experiment since it was added.

    Decisions are counted by ordinal (see `ExperimentState.ordinal`): numbers that the experiment skipped don't count.

    Parameters
    ----------
    name
        Name of the shadow; empty for the learner in charge.
    policy
        Specification that the learner was built from.
    learner
        The learner itself.
    since
        Number of decisions before it was added.
    """

    def __init__(self, name: str, policy: PolicySpec, learner: ServedPolicy, since: int) -> None:
        self.name, self.policy, self.learner, self.since = name, policy, learner, since
        learner.keep_all_pending()  # the experiment limits them, and never silently
        self.offset: int = learner.steps - since  # difference between the learner's step and the ordinal
        self.estimate = ShadowEstimate(since=since)
        self.decision_seconds = 0.0  # measured time of one decision

    def step(self, ordinal: int) -> int:
        """The learner's own step of a decision."""
        return ordinal + self.offset

    def learn(self, ordinal: int, reward: Any, action: ExperimentAction) -> None:
        """Learn the reward of the action that was taken, if this learner waits for one too."""
        step = self.step(ordinal)
        if ordinal <= self.since or not self.learner.is_pending(step):
            return
        try:
            if self.learner.wants_all:
                self.learner.learn(step, reward)
            else:
                self.learner.learn(step, reward, action)
        except ValueError:  # a shadow that takes rewards of another kind or range
            self.estimate.refused += 1
            self.discard(ordinal)

    def learn_slate(self, ordinal: int, rewards: dict[str, float]) -> None:
        """Learn the rewards of actions of a slate, by the text of their names, if the learner still waits for them."""
        step = self.step(ordinal)
        slate = self.learner.pending_slate(step)
        if slate is not None:
            self.learner.learn(step, {name: rewards[str(name)] for name in slate if str(name) in rewards})

    def discard(self, ordinal: int) -> None:
        """Discard a decision whose reward will not come."""
        self.learner.discard_pending(self.step(ordinal))

    def erase(self, ordinals: set[int]) -> int:
        """Begin to remove the contexts of decisions from the learner; returns how many it had."""
        steps = {self.step(ordinal) for ordinal in ordinals if ordinal > self.since}
        return self.learner.begin_erasure(steps) if steps else 0

    def control_info(self) -> ControlInfo | None:
        """Describe the learner's control group for the API; None where there is none."""
        if not self.learner.control_share:
            return None
        lift = self.learner.lift()
        return ControlInfo(
            share=lift.control_share,
            control=cast("ExperimentAction", self.learner.control),
            learner_rewards=lift.learner_rewards,
            control_rewards=lift.control_rewards,
            learner_mean=lift.learner_mean,
            control_mean=lift.control_mean,
            lift=lift.difference,
            lift_low=lift.lower,
            lift_high=lift.upper,
        )

    def to_message(self) -> ShadowInfo:
        """Describe the shadow for the API."""
        estimate = self.estimate
        least, most = self.learner.reward_range
        value, low, high = estimate.value((least, most))
        paired, span = estimate.paired, most - least
        in_charge = None if paired.mean_in_charge is None else least + span * paired.mean_in_charge
        return ShadowInfo(
            name=self.name,
            policy=self.policy,
            decisions=estimate.decisions,
            agreed=estimate.agreed,
            matched=estimate.matched,
            value=value,
            low=low,
            high=high,
            effective=estimate.effective_sample_size(),
            refused=estimate.refused,
            overlap=estimate.mean_weight(),
            supported=estimate.is_supported(),
            compared=paired.count,
            in_charge=in_charge,
            difference=None if value is None or in_charge is None else value - in_charge,
            difference_low=span * paired.low if paired.count else None,
            difference_high=span * paired.high if paired.count else None,
        )

    def freeze(self) -> Callable[[], SlotRecord]:
        """Capture the slot quickly; the function that this returns makes the record later."""
        estimate, learner = copy.deepcopy(self.estimate), self.learner.freeze()
        return lambda: SlotRecord(self.name, self.policy, self.since, self.offset, estimate, learner())

    @classmethod
    def from_record(cls, record: SlotRecord) -> LearnerSlot:
        slot = cls(record.name, record.policy, from_bytes(record.learner), record.since)
        slot.offset, slot.estimate = record.offset, record.estimate
        return slot


def action_names(learner: ServedPolicy) -> list[ExperimentAction]:
    """Actions of a learner: names in requests are text or integers, so those of an experiment are."""
    return cast("list[ExperimentAction]", list(learner.actions))


def serialize_learner(learner: ServedPolicy) -> bytes:
    """Serialize and compress a learner for the log: one with few rewards is mostly zeros."""
    return zlib.compress(learner.to_bytes(), 1)


def deserialize_learner(content: bytes) -> ServedPolicy:
    """Undo `serialize_learner`."""
    learner: ServedPolicy = from_bytes(zlib.decompress(content))
    return learner
