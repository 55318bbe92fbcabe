"""MLflow flavour: save, log and load learners as MLflow models, and predict with them.

Needs MLflow: ``pip install mlflow-skinny pandas``. It is imported on the first save, log or load.

>>> import releaf.mlflow
>>> with mlflow.start_run():  # doctest: +SKIP
...     releaf.mlflow.log_model(bandit, name="triage")
"""

from __future__ import annotations

import copy
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from releaf._version import __version__
from releaf.ensembles import load
from releaf.policy import Policy, WeighsCosts

__all__ = ["FLAVOUR", "PyfuncPolicy", "load_model", "log_model", "save_model"]

FLAVOUR = "releaf"  # its name in a file MLmodel
DATA = "policy.releaf"
REQUIREMENTS = "requirements.txt"


def save_model(
    policy: Policy,
    path: str | os.PathLike[str],
    *,
    mlflow_model: Any = None,
    signature: Any = None,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Save a learner to a folder as an MLflow model, with the flavours `releaf` and `python_function`.

    Parameters
    ----------
    policy
        The learner, with its pending decisions.
    path
        Folder, which must not exist or be empty.
    mlflow_model
        The ``mlflow.models.Model`` to add the flavours to; a new one when None.
    signature
        The ``mlflow.models.ModelSignature`` of contexts and predictions.
    metadata
        Further entries of the file MLmodel.
    """
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be a learner, such as releaf.AdaptiveReleaf(…), got {policy!r}")
    model_class, pyfunc = _import("mlflow.models").Model, _import("mlflow.pyfunc")
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"path {str(folder)!r} is not empty: expected a new or an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    policy.save(folder / DATA)
    (folder / REQUIREMENTS).write_text(f"releaf=={__version__}\nmlflow-skinny\npandas\n", encoding="utf-8")
    model = model_class() if mlflow_model is None else mlflow_model
    if signature is not None:
        model.signature = signature
    if metadata is not None:
        model.metadata = metadata
    model.add_flavor(FLAVOUR, data=DATA, policy=type(policy).__name__, releaf_version=__version__)
    pyfunc.add_to_model(model, loader_module="releaf.mlflow", data=DATA)
    model.save(str(folder / "MLmodel"))


def log_model(policy: Policy, name: str, *, registered_model_name: str | None = None, **further: Any) -> Any:
    """Log a learner as a model of the active run, and return MLflow's ``ModelInfo``.

    Parameters
    ----------
    policy
        The learner.
    name
        Name of the model.
    registered_model_name
        Register it under this name as well.
    **further
        ``signature`` and ``metadata``, as for :func:`save_model`.
    """
    model_class = _import("mlflow.models").Model
    return model_class.log(
        artifact_path=None,
        name=name,
        flavor=import_module(__name__),
        registered_model_name=registered_model_name,
        policy=policy,
        **further,
    )


def load_model(model_uri: str) -> Any:
    """Load the learner of an MLflow model; it continues exactly as the saved one.

    Parameters
    ----------
    model_uri
        Such as ``"models:/triage/1"``, ``info.model_uri``, or a folder.
    """
    folder = Path(_import("mlflow.artifacts").download_artifacts(artifact_uri=str(model_uri)))
    if not (folder / DATA).exists():
        raise ValueError(f"model_uri={str(model_uri)!r} has no {DATA}: expected a model that releaf.mlflow saved")
    return load(folder / DATA)


class PyfuncPolicy:
    """Predictions of a learner for tables of contexts; nothing is learnt.

    Parameters
    ----------
    policy
        The learner.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Decide for each row as if it came next.

        Parameters
        ----------
        model_input
            A pandas data frame with a column for each feature, or a matrix. A policy that weighs costs and has no fixed
            ones needs a data frame with a column ``cost: ACTION`` for each action as well.
        params
            ``{"seed": …}`` for the draws of a randomised policy, 0 by default.

        Returns
        -------
        pandas.DataFrame
            Columns ``action``, ``probability`` and ``estimate: ACTION`` for each action. An estimate that the policy
            does not have is NaN.
        """
        pandas = _import("pandas")
        index = getattr(model_input, "index", None)
        rows = model_input.to_dict("records") if index is not None else list(model_input)
        twin = copy.deepcopy(self.policy)
        states = np.random.default_rng((params or {}).get("seed", 0)).integers(-(2**63), 2**63 - 1, len(rows))
        choices = []
        costs = self._costs(rows)
        for row, cost, state in zip(rows, costs, states.tolist(), strict=True):
            twin.set_random_state(state)
            choices.append(twin.preview(row, cost=cost))
        estimates = self.policy.estimate(rows) if rows else np.empty((0, len(self.policy.actions)))
        columns: dict[str, Any] = {"action": [choice.action for choice in choices]}
        columns |= {"probability": [choice.probability for choice in choices]}
        columns |= {f"estimate: {name}": estimates[:, place] for place, name in enumerate(self.policy.actions)}
        return pandas.DataFrame(columns, index=index)

    def _costs(self, rows: list[Any]) -> list[list[Any] | None]:
        """Take the costs of each row out of it; None for the fixed ones."""
        names = [f"cost: {name}" for name in self.policy.actions]
        if not isinstance(self.policy, WeighsCosts) or self.policy.cost_weight is None:
            return [None] * len(rows)
        return [
            [row.pop(name) for name in names] if isinstance(row, dict) and row.keys() >= {*names} else None
            for row in rows
        ]


def _load_pyfunc(path: str) -> PyfuncPolicy:
    """Load what ``mlflow.pyfunc.load_model`` wraps."""
    return PyfuncPolicy(load(path))


def _import(name: str) -> Any:
    """Import a module of MLflow, or pandas; the error says what to install."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        message = f"releaf.mlflow needs {error.name}: pip install mlflow-skinny pandas"
        raise ModuleNotFoundError(message, name=error.name) from None
