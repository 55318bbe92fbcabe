"""`Run`: a run described as plain data, which can be sent to a worker, hashed and stored."""

from __future__ import annotations

import hashlib
import json
import operator
import os
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from releaf import ensembles, streams
from releaf._version import __version__
from releaf.evaluate.factories import policy_factory, sources_of, stream_factory
from releaf.evaluate.file_digests import digests_of_files
from releaf.evaluate.ledger import Ledger, check_checkpoints, ledger_of_rejection, run
from releaf.evaluate.off_policy import rejection
from releaf.policy import Previewable, Replayable

UNRELATED_MODULES = (
    "__main__.py",
    "chart_import.py",
    "charts.py",
    "river.py",
)  # modules that can't change the result of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One policy over one stream.

    Arguments are plain data: numbers, strings, None, and lists and mappings of them. NumPy values and paths are
    converted; anything else raises, since it has no stable hash.

    Attributes
    ----------
    stream, stream_arguments
        The name of a function of :mod:`releaf.streams`, or ``"module:function"``; and what to call it with.
    policy, policy_arguments
        The name of a policy, or ``"module:Class"``; and what to make it with. For an ensemble, ``experts`` and
        ``sample`` are descriptions: what to call ``train_experts`` with, and a ``stream`` with its ``arguments`` where
        the cases come from.
    seed
        Seed of the policy.
    positive, observation_cost, relevant, checkpoints
        As for :func:`releaf.evaluate.run`.
    label
        Name of the run in tables.
    """

    stream: str
    policy: str
    seed: int
    stream_arguments: dict[str, Any] = field(default_factory=dict)
    policy_arguments: dict[str, Any] = field(default_factory=dict)
    positive: Any = None
    observation_cost: float = 0.0
    relevant: list[int] | None = None
    checkpoints: tuple[int, ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        for name in ("stream_arguments", "policy_arguments", "positive", "observation_cost", "relevant"):
            object.__setattr__(self, name, to_plain_data(name, getattr(self, name)))
        object.__setattr__(self, "seed", to_integer("seed", self.seed))
        object.__setattr__(self, "checkpoints", check_checkpoints(self.checkpoints))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def key(self) -> str:
        """Hash of everything that determines the result; the label does not count.

        It covers the description, the package's source and the content of the files that the arguments name. For a
        ``"module:name"`` it covers the source of that module, but not of its imports.
        """
        described = {**self.to_dict(), "version": __version__, "sources": _sources(), "label": ""}
        described["files"] = digests_of_files({"stream": self.stream_arguments, "policy": self.policy_arguments})
        described["modules"] = sources_of(self.policy, self.stream, *_streams_in(self.policy_arguments))
        return hashlib.sha256(_canonical_json(described).encode()).hexdigest()[:24]


def to_plain_data(name: str, value: Any) -> Any:
    """Convert a value to JSON-compatible data; raises a TypeError that names the argument."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        parts = (to_plain_data(f"{name}[{index}]", part) for index, part in enumerate(value))
        return list(parts) if isinstance(value, list) else tuple(parts)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {str(key): to_plain_data(f"{name}[{key!r}]", part) for key, part in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    kinds = "a number, a text, None, or a list or mapping (from texts) of them"
    raise TypeError(f"{name} is {reprlib.repr(value)} ({type(value).__name__}): expected plain data: {kinds}")


def to_integer(name: str, value: Any) -> int:
    """Convert a value to an integer; raises a TypeError that names the argument."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: expected an integer") from None


def execute(described: Run) -> Ledger:
    """Create the stream and the policy, and run the policy; over a log by rejection sampling."""
    stream = _stream(described.stream, described.stream_arguments)
    if not isinstance(stream, streams.Stream | streams.Log):
        raise TypeError(f"stream {described.stream!r} returned {type(stream).__name__}: expected a Stream or a Log")
    policy = build(described, stream)
    if isinstance(stream, streams.Log):
        if described.checkpoints:
            raise ValueError(f"checkpoints is {described.checkpoints!r} for a log: expected none, or a stream")
        if not isinstance(policy, Previewable):
            lacks = "actions, schema, preview, decide and learn"
            raise TypeError(f"policy {described.policy!r} made {policy!r}: a run over a log needs {lacks}")
        return ledger_of_rejection(rejection(policy, stream), len(stream))
    account_for = {
        name: getattr(described, name) for name in ("positive", "observation_cost", "relevant", "checkpoints")
    }
    return run(policy, stream, **account_for)


def build(described: Run, stream: Any) -> Replayable:
    """Create the policy of a run."""
    arguments = dict(described.policy_arguments)
    if "experts" in arguments:
        given = dict(arguments["experts"])
        cases = _stream(given.pop("stream"), given.pop("arguments", {}))
        labels = {"actions": stream.actions, "features": stream.features}
        arguments["experts"] = ensembles.train_experts(cases.contexts, cases.rewards, **labels, **given)
    if "sample" in arguments:
        given = arguments["sample"]
        cases = _stream(given["stream"], given.get("arguments", {}))
        size = given["size"]
        arguments["sample"] = (cases.contexts[:size], cases.rewards[:size])
    policy = policy_factory(described.policy)(stream.actions, stream.features, seed=described.seed, **arguments)
    if not isinstance(policy, Replayable):
        raise TypeError(f"policy {described.policy!r} has no method replay(contexts, rewards) that returns a Trace")
    return policy


@cache
def _sources() -> str:
    """Digest of all code that can change the result of a run."""
    package = Path(__file__).parents[1]
    packages = ("core", "theory", "policies", "ensembles", "streams", "evaluate")
    files = [*package.glob("*.py"), *(path for name in packages for path in (package / name).rglob("*.py"))]
    content = b"".join(path.read_bytes() for path in sorted(files) if path.name not in UNRELATED_MODULES)
    return hashlib.sha256(content).hexdigest()[:16]


def _stream(name: str, arguments: dict[str, Any]) -> Any:
    return _cached_stream(
        stream_factory(name), _canonical_json(arguments), _canonical_json(digests_of_files(arguments))
    )


def _streams_in(arguments: dict[str, Any]) -> list[str]:
    """Names of the streams that a policy's experts or sample come from."""
    return [part["stream"] for part in arguments.values() if isinstance(part, dict) and "stream" in part]


@lru_cache(maxsize=4)
def _cached_stream(factory: Any, arguments: str, files: str) -> Any:
    given = json.loads(arguments)
    stream = factory(**given)
    if _canonical_json(digests_of_files(given)) != files:
        raise ValueError(f"{', '.join(json.loads(files))} has changed while it was read")
    return stream


def _canonical_json(described: dict[str, Any]) -> str:
    return json.dumps(described, sort_keys=True)
