"""One decision and its reward from Python, next to other libraries and to releaf's own replay.

Every side gets numpy rows and rewards as Python floats, and has learnt before the clock runs. At each step it decides,
and learns the reward of its decision. D = 15 features, A = 2 actions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

import releaf
from benchmarks.measure import Finding, Say, in_turn
from benchmarks.workload import Array, experienced, rewinder, stream

FEATURES, ACTIONS = 15, 2
WARMUP_STEPS, BATCH = 600_000, 100_000
BATCHES = (100, 1_000, 100_000)
STEPS = {
    "releaf": 20_000,
    "VowpalWabbit": 2_000,
    "VowpalWabbit, bare examples": 3_000,
    "MABWiser": 300,
    "obp": 2_000,
    "River": 1_000,
}
ARMS = list(range(ACTIONS))
Step = Callable[[Array, list[float]], int]  # decides on a context, learns its reward, and tells the action


def releaf_step(bandit: releaf.Releaf) -> Step:
    def step(row: Array, rewards: list[float]) -> int:
        choice = bandit.decide(row)
        bandit.learn(choice, rewards[choice.index])
        return choice.index

    return step


def _exploring() -> Callable[[list[float]], int]:
    """Draws an action from the two probabilities that VowpalWabbit predicts."""
    generator = np.random.default_rng(0)
    waiting: list[float] = []

    def draw(probabilities: list[float]) -> int:
        nonlocal waiting
        waiting = waiting or generator.random(10_000).tolist()
        return 0 if waiting.pop() < probabilities[0] else 1

    return draw


def vowpal_wabbit_text_step() -> Step:
    """Examples as lines of text, the way its manual shows."""
    from vowpalwabbit import Workspace

    workspace = Workspace(f"--cb_explore {ACTIONS} --epsilon 0.1 --quiet")
    draw = _exploring()

    def step(row: Array, rewards: list[float]) -> int:
        features = " ".join([f"{place}:{value}" for place, value in enumerate(row.tolist())])
        probabilities = workspace.predict(f"| {features}")
        action = draw(probabilities)
        workspace.learn(f"{action + 1}:{1.0 - rewards[action]}:{probabilities[action]} | {features}")
        return action

    return step


def vowpal_wabbit_step() -> Step:
    """Features pushed by number, and one example for both calls: faster than text or than an example for each.

    The example must be set up again with its label; without that, ``learn`` takes it for a test example
    and learns nothing.
    """
    from vowpalwabbit import Workspace

    workspace = Workspace(f"--cb_explore {ACTIONS} --epsilon 0.1 --quiet")
    draw = _exploring()

    def step(row: Array, rewards: list[float]) -> int:
        example = workspace.example({"x": list(enumerate(row.tolist(), 1))})
        example.setup_example()
        probabilities = workspace.predict(example)
        action = draw(probabilities)
        example.unsetup_example()
        example.set_label_string(f"{action + 1}:{1.0 - rewards[action]}:{probabilities[action]}")
        example.setup_example()
        workspace.learn(example)
        workspace.finish_example(example)
        return action

    return step


def mabwiser_step() -> Step:
    from mabwiser.mab import MAB, LearningPolicy

    bandit = MAB(ARMS, LearningPolicy.LinUCB(alpha=0.1))
    contexts, rewards = stream(100, FEATURES, ACTIONS, seed=2)
    bandit.fit([t % ACTIONS for t in range(100)], [rewards[t, t % ACTIONS] for t in range(100)], contexts)

    def step(row: Array, rewards: list[float]) -> int:
        matrix = row.reshape(1, -1)
        action = bandit.predict(matrix)
        bandit.partial_fit([action], [rewards[action]], matrix)
        return action

    return step


def obp_step() -> Step:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from obp.policy import LinUCB

    policy = LinUCB(dim=FEATURES, n_actions=ACTIONS, epsilon=0.1, random_state=0)

    def step(row: Array, rewards: list[float]) -> int:
        matrix = row.reshape(1, -1)
        action = int(policy.select_action(matrix)[0])
        policy.update_params(action, rewards[action], matrix)
        return action

    return step


def river_step() -> Step:
    from river.bandit import LinUCBDisjoint

    policy = LinUCBDisjoint(seed=0)
    names = range(FEATURES)

    def step(row: Array, rewards: list[float]) -> int:
        context = dict(zip(names, row.tolist(), strict=True))
        action = policy.pull(ARMS, context=context)
        policy.update(action, context, rewards[action])
        return action

    return step


def batched_mabwiser(contexts: Array, rewards: Array, batch: int) -> Callable[[], None]:
    """LinUCB that decides a batch of rows, then learns their rewards, then the next batch."""
    from mabwiser.mab import MAB, LearningPolicy

    def replay() -> None:
        bandit = MAB(ARMS, LearningPolicy.LinUCB(alpha=0.1))
        bandit.fit([0, 1], [0.5, 0.5], contexts[:2])
        for start in range(0, len(contexts), batch):
            rows = contexts[start : start + batch]
            chosen = np.array(bandit.predict(rows))
            bandit.partial_fit(chosen, rewards[start + np.arange(len(rows)), chosen], rows)

    return replay


def run(say: Say) -> list[Finding]:
    say(f"libraries: replaying {WARMUP_STEPS:,} steps")
    bandit = experienced(WARMUP_STEPS, FEATURES, ACTIONS, observe="always")
    contexts, rewards = stream(BATCH, FEATURES, ACTIONS, seed=1)
    steps = {
        "releaf": releaf_step(bandit),
        "VowpalWabbit": vowpal_wabbit_text_step(),
        "VowpalWabbit, bare examples": vowpal_wabbit_step(),
        "MABWiser": mabwiser_step(),
        "obp": obp_step(),
        "River": river_step(),
    }
    say("libraries: letting them learn")
    gained = {name: _mean_reward(step, 3_000, contexts, rewards) for name, step in steps.items()}
    sides = {name: loop(step, STEPS[name], contexts, rewards) for name, step in steps.items()}
    frugal = experienced(WARMUP_STEPS, FEATURES, ACTIONS, observe="explored")
    sides["replay"] = lambda: releaf.replay(bandit, contexts, rewards)
    sides["replay, few labels"] = lambda: releaf.replay(frugal, contexts, rewards)
    sides |= {f"MABWiser in batches of {batch:,}": batched_mabwiser(contexts, rewards, batch) for batch in BATCHES}
    rewinds = [rewinder(bandit), rewinder(frugal)]
    seconds = in_turn(
        sides, before=lambda: [rewind() for rewind in rewinds], say=lambda text: say(f"libraries: {text}")
    )
    per_step = {name: taken / STEPS.get(name, BATCH) for name, taken in seconds.items()}
    return _findings(per_step, {"microseconds": _in_microseconds(per_step), "mean_reward": gained})


def _findings(per_step: dict[str, float], detail: dict[str, dict[str, float]]) -> list[Finding]:
    mine, replayed = per_step["releaf"], per_step["replay"]
    findings = [
        Finding(what="decide + learn: time over a replayed step's", value=mine / replayed, at_most=6.0, detail=detail)
    ]
    for name in STEPS:
        if name != "releaf":
            what = f"decide + learn: times faster than {name}"
            findings.append(Finding(what=what, value=per_step[name] / mine, at_least=20.0))
    for batch in BATCHES:
        baseline = f"MABWiser in batches of {batch:,}"
        frugal, seeing = per_step[baseline] / per_step["replay, few labels"], per_step[baseline] / replayed
        findings.append(Finding(what=f"replay: times faster than {baseline}", value=frugal, at_least=1.0))
        findings.append(Finding(what=f"replay, always: times faster than {baseline}", value=seeing))
    return findings


def loop(step: Step, count: int, contexts: Array, rewards: Array) -> Callable[[], None]:
    rows, gains = list(contexts[:count]), rewards[:count].tolist()

    def replay() -> None:
        for row, gain in zip(rows, gains, strict=True):
            step(row, gain)

    return replay


def _mean_reward(step: Step, count: int, contexts: Array, rewards: Array) -> float:
    """What a side gains while it warms up: 0.5 by pure chance, about 0.6 by always taking the better action."""
    gains = [rewards[t, step(contexts[t], rewards[t].tolist())] for t in range(count)]
    return float(np.mean(gains[count // 2 :]))


def _in_microseconds(per_step: dict[str, float]) -> dict[str, float]:
    return {name: 1e6 * seconds for name, seconds in per_step.items()}
