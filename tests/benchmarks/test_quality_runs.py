"""Runs of the quality benchmark: what they measure, and that finished ones are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


def test_every_policy_of_releaf_runs_on_numbers_categories_and_missing_values() -> None:
    from benchmarks.quality.methods import METHODS
    from benchmarks.quality.runs import run_method, small_problem

    problem = small_problem()
    assert np.isnan(problem.contexts).any()
    ours = [method for method in METHODS if method.is_ours]
    assert len(ours) > 10
    for method in ours:
        actions, labels = run_method(method, problem, 0)
        assert actions is not None, method.name
        assert actions.shape == (len(problem),)
        assert 0 <= labels <= len(problem)


def test_the_trees_of_a_forest_are_followed_as_scikit_learn_does() -> None:
    from benchmarks.quality.regressors import _flat, _forest_mean
    from sklearn.ensemble import ExtraTreesRegressor

    generator = np.random.default_rng(0)
    contexts = generator.random((200, 4)).astype(np.float32)
    forest = ExtraTreesRegressor(10, random_state=0).fit(contexts[:150], generator.random(150))
    flat = _flat([tree.tree_ for tree in forest.estimators_])
    for row in contexts[150:]:
        every = [tree.predict(row[None, :])[0] for tree in forest.estimators_]
        assert _forest_mean(row, *flat) == pytest.approx((np.mean(every), np.var(every)))


def test_extra_trees_learn_which_action_is_right() -> None:
    from benchmarks.quality.regressors import ExtraTrees

    generator = np.random.default_rng(1)
    bandit = ExtraTrees(2, 2, seed=0)
    wrong = []
    for _ in range(150):
        context = generator.random(2)
        action = bandit.decide(context)
        right = int(context[0] > 0.5)
        wrong.append(action != right)
        bandit.learn(context, action, float(action == right))
    assert np.mean(wrong[75:]) < 0.15


def test_a_model_is_fitted_again_when_rewards_have_grown_by_the_given_factor() -> None:
    from benchmarks.quality.regressors import _Refitted

    class Counted(_Refitted):
        fitted: list[int] = []  # noqa: RUF012

        def fit(self, action: int, contexts: np.ndarray, rewards: np.ndarray) -> None:
            self.fitted.append(len(rewards))

    bandit = Counted(1, 1, seed=0, growth=1.5)
    for _ in range(30):
        bandit.learn(np.zeros(1), 0, 1.0)
    assert bandit.fitted == [1, 2, 3, 5, 8, 12, 18, 27]


def test_costly_methods_run_on_few_shuffles_and_the_costliest_on_small_data_sets() -> None:
    from benchmarks.quality.methods import BY_NAME, plan
    from benchmarks.quality.suite import Size

    small = Size(2_000, 4, 0, 4, 2, False, 500, False, "a")
    large = Size(10_000, 4, 0, 4, 2, False, 10_000, False, "b")
    names = ["LinUCB", "extra-trees", "CB forest"]
    tasks = [
        (task.data, task.method, task.seed) for seed in (0, 9) for task in plan({"s": small, "l": large}, names, seed)
    ]
    assert ("s", "CB forest", 0) in tasks
    assert ("l", "CB forest", 0) not in tasks
    assert [method for _, method, seed in tasks if seed == 9] == ["LinUCB", "LinUCB"]
    assert BY_NAME["LinUCB"].onehot
    assert not BY_NAME["AdaptiveReleaf"].onehot


def test_loss_is_regret_where_expected_rewards_are_known() -> None:
    from benchmarks.quality.problems import Problem
    from benchmarks.quality.runs import loss

    from releaf import Schema

    contexts, rewards = np.zeros((2, 1)), np.array([[1.0, 0.0], [0.0, 1.0]])
    known = Problem(contexts, contexts, rewards, Schema.of(1), np.array([[0.8, 0.5], [0.3, 0.2]]))
    drawn = Problem(contexts, contexts, rewards, Schema.of(1))
    assert loss(known, np.array([1, 1])) == pytest.approx((0.3 + 0.1) / 2)
    assert loss(drawn, np.array([1, 1])) == 0.5
    assert loss(known, np.array([1])) == pytest.approx(0.3)  # the first pass only


def test_memory_growth_is_what_was_allocated() -> None:
    from benchmarks.quality.runs import memory_growth

    with memory_growth() as megabytes:
        held = np.ones(50 * 2**17)  # 50 MB
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("there is no /proc")
    assert megabytes[0] == pytest.approx(held.nbytes / 2**20, abs=5)


def test_finished_runs_are_kept_and_slow_ones_not_tried_again(tmp_path: Path) -> None:
    from benchmarks.quality.sweep import Store, sweep
    from benchmarks.quality.tasks import Outcome, Task

    done: list[str] = []

    def execute(task: Task) -> Outcome:
        done.append(f"{task.method} {task.seed}")
        if task.method == "broken":
            return Outcome(failure="ValueError: no")
        return Outcome() if task.method == "slow" else Outcome(0.25, 0.5, 10, 0.1)

    rounds = [[Task("iris", name, seed, 10, "x") for name in ("good", "slow", "broken")] for seed in range(2)]
    path = tmp_path / "runs.jsonl"
    results = sweep(rounds, execute, Store(path), 1, lambda *_: None)
    assert sorted(done) == ["broken 0", "good 0", "good 1", "slow 0"]
    assert [outcome.loss for outcome in results["iris", "good"]] == [0.25, 0.25]
    assert [outcome.loss for outcome in results["iris", "slow"]] == [None, None]
    path.write_text(path.read_text() + '{"key": "iris | cut')
    done.clear()
    assert sweep(rounds, execute, Store(path), 1, lambda *_: None)["iris", "good"] == results["iris", "good"]
    assert done == ["broken 0"]


def test_the_sealed_part_is_run_for_a_commit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.quality import settings

    assert settings.splits() == ("development", "validation")
    monkeypatch.setenv("RELEAF_QUALITY_SPLIT", "sealed")
    monkeypatch.setattr(settings, "_is_changed", lambda: True)
    with pytest.raises(SystemExit, match="commit the changes"):
        settings.splits()
    monkeypatch.setattr(settings, "_is_changed", lambda: False)
    assert settings.splits() == ("sealed",)
    assert settings.suffix() == "-sealed"
    monkeypatch.setenv("RELEAF_QUALITY_SPLIT", "secret")
    with pytest.raises(SystemExit, match="RELEAF_QUALITY_SPLIT=secret"):
        settings.splits()
