"""The experiment behind `releaf serve --personalizer`: made at the first start, with settings that suit most loops."""

from __future__ import annotations

import logging

from releaf.service.errors import ApiError
from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.messages import NewExperiment, PolicySpec, RewardRules
from releaf.service.messages.fields import Parameters

ROOT = "/personalizer/"
CONTEXT_COLUMNS, ACTION_COLUMNS = 24, 16
REWARD_WAIT_SECONDS = 600.0  # Personalizer's own default, as is a default reward of 0
PARAMETERS: Parameters = {"alpha": 0.5, "least_probability": 0.005, "reward_range": [-1.0, 1.0], "max_actions": 1000}
log = logging.getLogger("releaf.service")


def loop_spec(name: str) -> NewExperiment:
    """An experiment for Personalizer's API: nothing about its actions and features is known beforehand."""
    return NewExperiment(
        name=name,
        actions={},
        features=CONTEXT_COLUMNS,
        action_features=ACTION_COLUMNS,
        policy=PolicySpec("HybridLinUCB", dict(PARAMETERS)),
        rewards=RewardRules(within_seconds=REWARD_WAIT_SECONDS, default=0.0),
    )


async def ensure_loop(registry: ExperimentRegistry, name: str) -> None:
    """Create the experiment unless it is there."""
    if name in registry.experiments:
        return
    try:
        await registry.create(loop_spec(name))
    except ApiError as error:
        if error.code != "name_taken":  # by another process on the same store
            raise
    else:
        log.info("experiment %s: created for Personalizer's API", name)


def experiment_path(path: str, name: str) -> str:
    """The path of a request below the experiment that answers it."""
    return f"/v1/experiments/{name}{path}" if name and path.startswith(ROOT) else path
