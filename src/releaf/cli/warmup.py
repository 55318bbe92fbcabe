"""`releaf warmup`: compile kernels ahead of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.progress import Progress

from releaf.cli.console import Json, console, print_json
from releaf.policy import Policy


def warmup(
    actions: Annotated[
        list[int] | None, typer.Option(min=1, help="A number of actions; may be repeated (1 to 8).")
    ] = None,
    gamma_rel: Annotated[
        list[int] | None, typer.Option(min=1, help="A value of gamma_rel; may be repeated (1).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile kernels ahead of time, so that later processes start fast; takes seconds per number of actions.

    The kernels of the other policies work for all numbers of actions.
    """
    from releaf.policies import Releaf

    cases = [(number, gamma) for gamma in gamma_rel or [1] for number in actions or range(1, 9)]
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        for number, gamma in progress.track(cases, description="compiling RELEAF"):
            for observe in ("explored", "all-actions"):
                _compile(Releaf(number, 2 * gamma, gamma_rel=gamma, seed=0, observe=observe))
        for policy in progress.track(list(_other_policies()), description="compiling the others"):
            _compile(policy)
    if as_json:
        print_json({"actions": list(actions or range(1, 9)), "gamma_rel": gamma_rel or [1]})
        return
    numbers = ", ".join(map(str, actions or range(1, 9)))
    console.print(f"Kernels are ready: RELEAF's for {numbers} actions, the other policies' for any number.")


def _other_policies() -> Iterator[Policy]:
    """One instance of each policy except RELEAF."""
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
