"""`Exportable`: export of a policy as it is now, as JSON that evaluators in other languages read."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from releaf._version import __version__
from releaf.atomic_file import replace_file
from releaf.datetimes import DateTime
from releaf.decision import ActionName
from releaf.feature_dicts import Declared, feature_to_dict
from releaf.features import MISSING, Quantile
from releaf.frozen import VERSION, checksum
from releaf.schema import Encoder, Schema

FORMAT = "releaf-policy"
Rule = Callable[[], dict[str, Any]]  # makes the rule of a document from a copy of the state


class Exportable:
    """Mixin for policies that can be frozen. A subclass that can defines ``_freeze_rule``."""

    _action_names: tuple[ActionName, ...]
    _schema: Schema
    _encoder: Encoder
    _steps: int
    _weighs_costs: bool
    control_share: float
    _lock: threading.RLock

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the policy as it is now to a JSON file, by which :func:`releaf.load_policy` and others decide.

        A frozen policy learns nothing. It keeps its exploration: the probability of each action is that of the
        policy's next decision. How to decide in a browser, at an edge or on a phone: :doc:`/how-to/decide-anywhere`.

        Parameters
        ----------
        path
            The file; it appears complete or not at all.

        Examples
        --------
        >>> import releaf, tempfile
        >>> bandit = releaf.LinearEpsilonGreedy(["wait", "treat"], ["age", "dose"], epsilon=0.1, seed=0)
        >>> path = f"{tempfile.mkdtemp()}/policy.json"
        >>> bandit.export(path)
        >>> releaf.load_policy(path).decide({"age": 0.2, "dose": 0.5}, seed=1).probability
        0.95
        """
        content = self.freeze_policy()()
        with replace_file(path) as file:
            file.write(content)

    def freeze_policy(self) -> Callable[[], bytes]:
        """Copy what decides now, and return a function that makes the JSON that ``export`` writes.

        So another thread can make it while this one continues to decide.
        """
        with self._lock:
            if self._weighs_costs:
                raise ValueError(
                    "a policy that weighs costs can't be exported: evaluators of frozen policies know no costs; "
                    "expected cost_weight=None and spend_budget=None"
                )
            if self.control_share:
                raise ValueError(
                    f"a policy with a control group can't be exported: evaluators of frozen policies know no groups, "
                    f"and would tell wrong probabilities; expected control_share=0, got {self.control_share:g}"
                )
            rule, quantiles = self._freeze_rule(), self._encoder.quantile_samples()
            names, steps = self._action_names, self._steps
        name, schema = type(self).__name__, self._schema
        return lambda: _to_json(
            {
                "format": FORMAT,
                "version": VERSION,
                "releaf": __version__,
                "policy": name,
                "decisions": steps,
                "actions": list(names),
                "features": _describe_inputs(schema, quantiles),
                "encoded": _describe_encoded(schema),
                "rule": rule(),
            }
        )

    def _freeze_rule(self) -> Rule:
        """Copy the state of the rule, and return a function that describes it. Needs the lock."""
        raise TypeError(
            f"{type(self).__name__} can't be exported: AdaptiveReleaf, Releaf, LinUCB, LinearEpsilonGreedy, "
            "EpsilonGreedy, UCB1 and Random can"
        )


def _to_json(document: dict[str, Any]) -> bytes:
    try:
        document["checksum"] = f"{checksum(document):08x}"
        text = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"the policy can't be exported as JSON: {error}") from None
    return text.encode()


def _describe_inputs(schema: Schema, quantiles: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    """What a context has: how each value is encoded, and what an error says that it expects."""
    return [
        {"name": name, **_describe(feature, quantiles.get(name, [])), "expects": feature.expects}
        for name, feature in schema.inputs.items()
    ]


def _describe(feature: Declared, sample: list[float]) -> dict[str, Any]:
    described = {**feature_to_dict(feature), "when_missing": None}
    if feature.missing:
        described["when_missing"] = _encode_missing(feature)
    if isinstance(feature, DateTime):
        return {"start": None, "end": None, **described}
    if isinstance(feature, Quantile):
        del described["size"]
        return {**described, "sample": sample}
    if feature.categories:
        described["categories"] = feature.categories
    return {"other": False, **described} if "values" in described else described


def _encode_missing(feature: Declared) -> list[float]:
    if isinstance(feature, DateTime):
        return feature.encode_one(None)
    return [(feature.categories - 0.5) / feature.categories if feature.categories else MISSING]


def _describe_encoded(schema: Schema) -> list[dict[str, Any]]:
    """What a rule sees of a context: numbers in [0, 1], -1 for a missing one, and categories."""
    return [
        {"name": name, "categories": feature.categories, "missing": feature.missing}
        for name, feature in zip(schema.names, schema.features, strict=True)
    ]
