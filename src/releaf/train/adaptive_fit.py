"""Parallel fit of `AdaptiveReleaf`: a sample of each action's rows, and models that follow from it.

The first pass counts the rows of each action, from which follows what share of them a sample may have. The second pass
draws the samples (:mod:`releaf.train.reward_sampling`). Models of different actions are fitted in parallel too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from releaf.core.adaptive.engine import most_rows
from releaf.policies import AdaptiveReleaf
from releaf.train.fit_tasks import LogParts, ReadJob, encoded_rows
from releaf.train.log_passes import LogPasses
from releaf.train.log_summary import LogSummary
from releaf.train.reward_sampling import (
    RewardSample,
    RowTally,
    SampleSum,
    SamplingRule,
    draw,
    number_of_bins,
    sampled_rows,
)

FITTED_HERE = 2**15  # sampled rows, up to which models are fitted in this process


class SampleJob(NamedTuple):
    """Which rows are sampled."""

    read: ReadJob
    rule: SamplingRule


def fit_samples(
    passes: LogPasses, prototype: AdaptiveReleaf, new_learner: Callable[[LogSummary], AdaptiveReleaf]
) -> AdaptiveReleaf:
    """Fit a learner; ``new_learner`` makes one for the actions of a log."""
    seen, tally = passes.summarize(partial(RowTally, number_of_bins(passes.rows)))
    learner, features = new_learner(seen), len(prototype.schema)
    rule = SamplingRule.of(tally, learner.actions, most_rows(features, len(learner.actions)))
    sample = SampleSum(features)
    for found in passes.run("sampling", sample_parts, SampleJob(passes.job, rule)):
        sample.add(found)

    def fit_models(function: Callable[[Any], Any], fits: list[Any]) -> Iterable[Any]:
        sizes = [len(fit.rewards) for fit in fits]
        return map(function, fits) if sum(sizes) <= FITTED_HERE else passes.map("fitting", function, fits, sizes)

    return learner.with_rows(
        sampled_rows(rule, sample.total()),
        reward_sum=tally.reward_sum(learner.actions),
        quantiles=passes.job.encoder,
        mapper=fit_models,
    )


def sample_parts(job: SampleJob, parts: LogParts) -> RewardSample:
    """Sampled rows of some parts."""
    sample = SampleSum(len(job.read.columns.schema))
    for rows in encoded_rows(job.read, parts):
        sample.add(draw(job.rule, rows))
    return sample.total()
