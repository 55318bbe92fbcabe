"""`releaf warmup`: compile kernels ahead of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from releaf.cli.console import Json, console, print_json, progress_bar
from releaf.policy import Policy


def warmup(
    actions: Annotated[list[int] | None, typer.Option(hidden=True)] = None,  # of version 0.1, now without effect
    gamma_rel: Annotated[list[int] | None, typer.Option(hidden=True)] = None,
    as_json: Json = False,
) -> None:
    """Compile the kernels of all policies ahead of time, so that later processes start fast; about two minutes."""
    from releaf.policies import Releaf

    policies = [Releaf(3, 2, seed=0, observe="all-actions"), *_policies()]
    with progress_bar() as progress:
        for policy in progress.track(policies, description="compiling"):
            _compile(policy)
    names = sorted({type(policy).__name__ for policy in policies})
    if as_json:
        print_json({"policies": names})
        return
    console.print(f"The kernels of {len(names)} policies are ready, for any number of actions and features.")


def _policies() -> Iterator[Policy]:
    """One instance of each policy."""
    import numpy as np

    from releaf import Schema, ensembles, policies
    from releaf.policies.class_lookup import policy_classes

    votes = ensembles.Experts(np.zeros((1, 3, 2)), np.zeros((1, 3)), 0, (0, 1, 2), Schema.of(2))
    ensembles.AdaBoost(3, 2, experts=votes, sample=(np.zeros((1, 2)), np.ones((1, 3))))  # for its training
    for package, given in ((policies, {}), (ensembles, {"experts": votes})):
        for policy in policy_classes(package).values():
            yield policy(3, 2, seed=0, **given)


def _compile(policy: Policy) -> None:
    """Call every kernel of a policy once."""
    import numpy as np

    contexts, actions = np.random.default_rng(0).random((200, len(policy.schema))), len(policy.actions)
    choice = policy.decide(contexts[0])
    if choice.wants_reward:
        policy.learn(choice, [1.0] * actions if policy.wants_all else 1.0)
    policy.decide_many(contexts[:2])
    policy.replay(contexts, np.ones((len(contexts), actions)))
    policy.estimate(contexts)
    if policy.traits.learns_from_logs:
        policy.learn_log(contexts, [policy.actions[0]] * len(contexts), np.ones(len(contexts)))
    if policy.traits.explains:
        policy.explain(contexts[0])
