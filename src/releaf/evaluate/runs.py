"""Runs described as plain data, so that they can be sent to another process, named by a digest, and kept."""

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
from releaf.evaluate.digests import files_of
from releaf.evaluate.ledger import Ledger, checked_checkpoints, rejected, run
from releaf.evaluate.names import policy_maker, sources_of, stream_maker
from releaf.evaluate.offpolicy import rejection

TELLERS = ("__main__.py", "charts.py", "plot.py", "river.py")  # modules that no outcome of a run depends on


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One policy over one stream.

    Arguments are plain data: numbers, texts, lists and mappings of them, None. Numpy's numbers and arrays, and paths,
    are taken for what they hold; anything else is refused, since it could not be recognised again.

    Attributes
    ----------
    stream, stream_arguments
        The name of a function of :mod:`releaf.streams`, or ``"module:function"``; and what to call it with.
    policy, policy_arguments
        The name of a policy, or ``"module:Class"``; and what to make it with. For an ensemble, ``experts`` and
        ``sample`` are descriptions: what to call ``train_experts`` with, and a ``stream`` with its ``arguments`` where
        the cases come from.
    seed
        The policy's.
    positive, observation_cost, relevant, checkpoints
        As for :func:`releaf.evaluate.run`.
    label
        What to call it in tables.
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
            object.__setattr__(self, name, plain(name, getattr(self, name)))
        object.__setattr__(self, "seed", whole("seed", self.seed))
        object.__setattr__(self, "checkpoints", checked_checkpoints(self.checkpoints))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def key(self) -> str:
        """Names what the run would do now, whatever it is called.

        It is the same for the same description, sources, and content of the files that the arguments name. Of a
        ``"module:name"``, the file of that module is among the sources; what it imports is not.
        """
        described = {**self.to_dict(), "version": __version__, "sources": _sources(), "label": ""}
        described["files"] = files_of({"stream": self.stream_arguments, "policy": self.policy_arguments})
        described["modules"] = sources_of(self.policy, self.stream, *_streams_in(self.policy_arguments))
        return hashlib.sha256(_frozen(described).encode()).hexdigest()[:24]


def plain(name: str, value: Any) -> Any:
    """Data that JSON can tell, so that it has one form wherever it is sent and kept."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        parts = (plain(f"{name}[{place}]", part) for place, part in enumerate(value))
        return list(parts) if isinstance(value, list) else tuple(parts)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {str(key): plain(f"{name}[{key!r}]", part) for key, part in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    kinds = "a number, a text, None, or a list or mapping (from texts) of them"
    raise TypeError(f"{name} is {reprlib.repr(value)} ({type(value).__name__}): expected plain data: {kinds}")


def whole(name: str, value: Any) -> int:
    """A whole number."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: expected a whole number") from None


def execute(described: Run) -> Ledger:
    """Make the stream and the policy, and run one over the other; through a log by rejection."""
    stream = _stream(described.stream, described.stream_arguments)
    policy = build(described, stream)
    if isinstance(stream, streams.Log):
        if described.checkpoints:
            raise ValueError(f"checkpoints is {described.checkpoints!r} for a log: expected none, or a stream")
        return rejected(rejection(policy, stream), len(stream))
    account_for = {
        name: getattr(described, name) for name in ("positive", "observation_cost", "relevant", "checkpoints")
    }
    return run(policy, stream, **account_for)


def build(described: Run, stream: Any) -> Any:
    """The policy of a run."""
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
    return policy_maker(described.policy)(stream.actions, stream.features, seed=described.seed, **arguments)


@cache
def _sources() -> str:
    """A digest of all code that a run's outcome depends on; reports may change without."""
    package = Path(__file__).parents[1]
    rooms = ("core", "theory", "policies", "ensembles", "streams", "evaluate")
    files = [*package.glob("*.py"), *(path for room in rooms for path in (package / room).rglob("*.py"))]
    content = b"".join(path.read_bytes() for path in sorted(files) if path.name not in TELLERS)
    return hashlib.sha256(content).hexdigest()[:16]


def _stream(name: str, arguments: dict[str, Any]) -> Any:
    return _made(stream_maker(name), _frozen(arguments), _frozen(files_of(arguments)))


def _streams_in(arguments: dict[str, Any]) -> list[str]:
    """Names of the streams that experts or a sample of a policy come from."""
    return [part["stream"] for part in arguments.values() if isinstance(part, dict) and "stream" in part]


@lru_cache(maxsize=4)
def _made(maker: Any, arguments: str, files: str) -> Any:
    given = json.loads(arguments)
    stream = maker(**given)
    if _frozen(files_of(given)) != files:
        raise ValueError(f"{', '.join(json.loads(files))} has changed while it was read")
    return stream


def _frozen(described: dict[str, Any]) -> str:
    return json.dumps(described, sort_keys=True)
