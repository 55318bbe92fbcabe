"""Runs described as plain data, so that they can be sent to another process, named by a digest, and kept."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from releaf import ensembles, policies, streams
from releaf._version import __version__
from releaf.evaluate.ledger import Ledger, rejected, run
from releaf.evaluate.offpolicy import rejection

TELLERS = ("cli.py", "charts.py", "plot.py", "river.py")  # modules that no outcome of a run depends on


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One policy over one stream.

    Attributes
    ----------
    stream, stream_arguments
        The name of a function of :mod:`releaf.streams`, and what to call it with.
    policy, policy_arguments
        The name of a policy, and what to make it with. For an ensemble, ``experts`` and ``sample`` are descriptions:
        what to call ``train_experts`` with, and a ``stream`` with its ``arguments`` where the cases come from.
    seed
        The policy's.
    positive, observation_cost
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
    label: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def key(self) -> str:
        """Names what the run would do, the same for the same sources and description, whatever it is called."""
        described = {**self.to_dict(), "version": __version__, "sources": _sources(), "label": ""}
        return hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()[:24]


def execute(described: Run) -> Ledger:
    """Make the stream and the policy, and run one over the other; through a log by rejection."""
    stream = _stream(described.stream, _frozen(described.stream_arguments))
    policy = build(described, stream)
    if isinstance(stream, streams.Log):
        return rejected(rejection(policy, stream), len(stream))
    return run(policy, stream, positive=described.positive, observation_cost=described.observation_cost)


def build(described: Run, stream: Any) -> Any:
    """The policy of a run."""
    arguments = dict(described.policy_arguments)
    if "experts" in arguments:
        given = dict(arguments["experts"])
        cases = _stream(given.pop("stream"), _frozen(given.pop("arguments", {})))
        labels = {"actions": stream.actions, "features": stream.features}
        arguments["experts"] = ensembles.train_experts(cases.contexts, cases.rewards, **labels, **given)
    if "sample" in arguments:
        given = arguments["sample"]
        cases = _stream(given["stream"], _frozen(given.get("arguments", {})))
        size = given["size"]
        arguments["sample"] = (cases.contexts[:size], cases.rewards[:size])
    maker = getattr(policies, described.policy, None) or getattr(ensembles, described.policy)
    return maker(stream.actions, stream.features, seed=described.seed, **arguments)


@cache
def _sources() -> str:
    """A digest of all code that a run's outcome depends on; reports may change without."""
    package = Path(__file__).parents[1]
    rooms = ("core", "policies", "ensembles", "streams", "evaluate")
    files = [*package.glob("*.py"), *(path for room in rooms for path in (package / room).rglob("*.py"))]
    content = b"".join(path.read_bytes() for path in sorted(files) if path.name not in TELLERS)
    return hashlib.sha256(content).hexdigest()[:16]


@lru_cache(maxsize=4)
def _stream(name: str, arguments: str) -> Any:
    return getattr(streams, name)(**json.loads(arguments))


def _frozen(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True)
