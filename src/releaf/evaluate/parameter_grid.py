"""Grids of runs over parameters and seeds, and their results as a table."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from releaf.evaluate.factories import policy_factory, stream_factory
from releaf.evaluate.ledger import NESTED_FIELDS, Ledger
from releaf.evaluate.runs import Run, to_integer, to_plain_data

Choices = Mapping[str, Mapping[str, Any]] | Sequence[str]


def grid(
    policies: Choices,
    streams: Choices,
    seeds: Iterable[int] = range(1),
    *,
    positive: Any = None,
    observation_cost: float = 0.0,
    checkpoints: Iterable[int] = (),
) -> list[Run]:
    """Runs of all combinations of policies, streams, their parameters and seeds.

    Parameters
    ----------
    policies, streams
        Mapping from names to parameters, or a list of names, as for :class:`Run`. A list, a range or an array holds
        several values of a parameter; anything else, also a tuple, is one value.
    seeds
        Several integers, such as ``range(3)``. They seed the policy, and the stream if it takes a seed and its
        parameters have none. All policies run over the same streams.
    positive, observation_cost, checkpoints
        As for :func:`releaf.evaluate.run`.

    Examples
    --------
    >>> from releaf import evaluate
    >>> tried = {"Releaf": {"control_divisor": [100, 1_000, 5_000]}, "LinUCB": {"alpha": [0.1, 1.0]}}
    >>> runs = evaluate.grid(tried, {"breast_cancer": {"steps": 5_000}}, seeds=range(20))
    >>> len(runs), runs[0].label, runs[-1].label
    (100, 'Releaf(control_divisor=100)', 'LinUCB(alpha=1.0)')
    """
    made = [
        (name, arguments, "seed" in _parameters(stream_factory(name)) and "seed" not in arguments)
        for name, arguments in _combinations("stream", streams, stream_factory)
    ]
    return [
        Run(
            stream=stream,
            stream_arguments={**arguments, "seed": seed} if seeded else arguments,
            policy=policy,
            policy_arguments=chosen,
            seed=seed,
            positive=positive,
            observation_cost=observation_cost,
            checkpoints=tuple(checkpoints),
            label=f"{policy}({', '.join(f'{name}={value!r}' for name, value in chosen.items())})",
        )
        for (stream, arguments, seeded), (policy, chosen), seed in product(
            made, list(_combinations("policy", policies, policy_factory)), _seeds(seeds)
        )
    ]


def table(runs: Sequence[Run], ledgers: Sequence[Ledger]) -> dict[str, list[Any]]:
    """Results of runs as a mapping of columns, which pandas, polars, pyarrow and narwhals accept.

    Each run is a row, in the given order: its label, policy, stream and seed; a column per parameter, such as
    ``policy_alpha`` and ``stream_steps``, None if a run uses the default; and the scalar fields of its :class:`Ledger`.
    A parameter with values of several types becomes text.

    Examples
    --------
    >>> from releaf import evaluate
    >>> from releaf.executors import Local
    >>> runs = evaluate.grid({"LinUCB": {"alpha": [0.1, 1.0]}}, {"breast_cancer": {"steps": 500}})
    >>> found = evaluate.table(runs, evaluate.sweep(runs, executor=Local(1)))
    >>> found["policy_alpha"], found["labels"]
    ([0.1, 1.0], [500, 500])
    """
    if len(runs) != len(ledgers):
        raise ValueError(f"ledgers has {len(ledgers)} entries: expected one for each of {len(runs)} runs")
    columns = {name: [getattr(run, name) for run in runs] for name in ("label", "policy", "stream", "seed")}
    for kind in ("policy", "stream"):
        of_runs = [getattr(run, f"{kind}_arguments") for run in runs]
        for name in dict.fromkeys(name for arguments in of_runs for name in arguments):
            columns[f"{kind}_{name}"] = _uniform_column([arguments.get(name) for arguments in of_runs])
    intervals = [ledger.reward_interval or (None, None) for ledger in ledgers]
    for name in Ledger.__dataclass_fields__:
        if name not in NESTED_FIELDS and name not in columns:
            columns[name] = [getattr(ledger, name) for ledger in ledgers]
    return columns | {"reward_low": [low for low, _ in intervals], "reward_high": [high for _, high in intervals]}


def _combinations(kind: str, choices: Choices, factory: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each name with each combination of its parameters."""
    if isinstance(choices, str):
        raise TypeError(
            f"{kind} names are {choices!r}: expected a list of names, or a mapping from names to parameters"
        )
    for name, parameters in choices.items() if isinstance(choices, Mapping) else ((name, {}) for name in choices):
        known = _parameters(factory(name)) - ({"actions", "features", "seed"} if kind == "policy" else set())
        for parameter in parameters:
            if parameter not in known:
                raise ValueError(f"{name} has no parameter {parameter!r}; it has {', '.join(sorted(known)) or 'none'}")
        for values in product(*map(_values, parameters.values())):
            pairs = zip(parameters, values, strict=True)
            yield name, {parameter: to_plain_data(f"{name}'s {parameter}", value) for parameter, value in pairs}


def _values(given: Any) -> list[Any]:
    several = isinstance(given, list | range) or (isinstance(given, np.ndarray) and given.ndim > 0)
    return list(given) if several else [given]


def _seeds(given: Any) -> list[int]:
    if not isinstance(given, Iterable):
        raise TypeError(f"seeds is {given!r}: expected several integers, such as range(3)")
    return [to_integer("seeds", seed) for seed in given]


def _parameters(factory: Any) -> set[str]:
    return set(inspect.signature(factory).parameters)


def _uniform_column(values: list[Any]) -> list[Any]:
    """Convert values to one type, so that they form a column."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1 and kinds <= {bool, int, float, str}:
        return values
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    return [value if value is None or isinstance(value, str) else json.dumps(value, default=str) for value in values]
