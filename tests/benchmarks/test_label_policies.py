"""The policies of the benchmark of label efficiency: they keep to their budgets, and learn from what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from benchmarks.quality.problems import Problem

STEPS, BUDGET = 600, 60


@pytest.fixture
def problem() -> Problem:
    """Two actions, of which one feature tells the right one."""
    from benchmarks.quality.problems import Table, problem_of_table

    generator = np.random.default_rng(0)
    columns = {"x": generator.random(STEPS), "noise": generator.random(STEPS)}
    return problem_of_table(Table(columns, columns["x"] > 0.5))


@pytest.mark.parametrize("name", ["AdaptiveReleaf", "AdaptiveReleaf, random", "LinUCB, random", "LinUCB, uncertainty"])
def test_a_policy_keeps_to_its_budget_and_learns(problem: Problem, name: str) -> None:
    from benchmarks.labels.runs import BY_NAME, warm_up
    from benchmarks.quality.runs import loss

    warm_up(BY_NAME[name])
    actions, labels = BY_NAME[name].run(problem, BUDGET, 0)
    assert 0 < labels <= BUDGET
    assert actions is not None
    assert actions.shape == (STEPS,)
    assert loss(problem, actions) < 0.25


def test_uncertainty_sampling_spends_its_budget_over_the_whole_stream(problem: Problem) -> None:
    from benchmarks.labels import policies

    _, labels = policies.linucb_uncertain(problem, BUDGET, 0)
    assert labels == BUDGET
    _, early = policies.linucb_uncertain(problem.taken(np.arange(STEPS // 2)), BUDGET // 2, 0)
    assert early == BUDGET // 2


def test_the_ridge_regression_gives_linucb_s_estimates(problem: Problem) -> None:
    """So that uncertainty sampling is compared with the same model."""
    from benchmarks.labels.policies import _Ridge

    import releaf

    policy, model = releaf.LinUCB(2, 2), _Ridge(2, 2)
    for step, context in enumerate(problem.onehot[:50]):
        row = np.append(context, 1.0)
        decision = policy.decide(context)
        means, widths = model.predict(row)
        if decision.estimates is not None:  # as long as it does not explore
            np.testing.assert_allclose(decision.estimates, means, atol=1e-9)
        assert (means + widths)[decision.index] == pytest.approx((means + widths).max())
        reward = float(problem.rewards[step, decision.index])
        policy.learn(decision, reward)
        model.learn(row, decision.index, reward)


def test_a_method_s_name_tells_its_policy_and_budget() -> None:
    from benchmarks.labels.runs import ASKING, method_name, parsed

    for asking in ASKING:
        assert parsed(method_name(asking, 200)) == (asking, 200)
