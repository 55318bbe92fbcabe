"""Serialization of learners to state files and bytes, with validation on load."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from releaf._version import __version__
from releaf.arrays import Array
from releaf.control_lift import GroupSums
from releaf.core.runtime import state_file
from releaf.decision import ActionName
from releaf.features import MISSING
from releaf.policies.argument_checks import whole
from releaf.policies.parameters import parameters_of
from releaf.policies.pending_decisions import PendingDecision, are_eligible, as_arrays, from_arrays
from releaf.schema import Encoder, Schema

MOST_STEPS = 2**53  # decision ids that every JSON parser reads exactly
_REGISTRY: dict[str, type[Revivable]] = {}


class Revivable(Protocol):
    """A class that ``load`` can rebuild from a state file."""

    @classmethod
    def _revive(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self: ...


R = TypeVar("R", bound=type[Revivable])


def register(made: R) -> R:
    """Register a class for ``load`` by its name."""
    _REGISTRY[made.__name__] = made
    return made


class Serializable:
    """Mixin for learners that can be saved, loaded, copied and pickled."""

    _array_arguments: ClassVar[tuple[str, ...]] = ()  # constructor arguments that the arrays of a state hold
    _action_names: tuple[ActionName, ...]
    _schema: Schema
    _encoder: Encoder
    _steps: int
    _evicted: int
    _groups: GroupSums | None
    _token: int
    _pending: OrderedDict[int, PendingDecision]
    _lock: threading.RLock

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        register(cls)

    @abstractmethod
    def _arrays(self) -> dict[str, Array]:
        """Copy the arrays of the learnt state."""

    def _cached_arrays(self) -> dict[str, Array]:
        """Copy what loading would compute anew, for a file that is loaded faster."""
        return {}

    @abstractmethod
    def _load_state(self, arrays: dict[str, Array]) -> None:
        """Load what ``_arrays`` returned, and perhaps ``_cached_arrays``."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file atomically; ``releaf.load`` resumes exactly from its state.

        The file holds plain arrays and JSON behind a checksum; loading it runs no code. Besides the state it holds
        fitted models that take long to fit anew, so that it is loaded fast.
        """
        with self._lock:
            header, arrays = self._contents()
            arrays |= {f"policy.{name}": array for name, array in self._cached_arrays().items()}
        state_file.write(path, header, arrays)

    def to_bytes(self) -> bytes:
        """Serialize the state of the learner to bytes, which ``releaf.from_bytes`` loads.

        They are those that ``save`` writes, but for fitted models: ``from_bytes`` fits these anew.
        """
        return self.freeze()()

    def freeze(self) -> Callable[[], bytes]:
        """Copy the state now, and return a function that serializes the copy.

        So another thread can serialize while this one continues to decide.
        """
        with self._lock:
            header, arrays = self._header(), self._learnt_arrays()
            numbers, pending = list(self._pending), list(self._pending.values())
        width = len(self._schema)
        return lambda: state_file.to_bytes(header, arrays | as_arrays(numbers, pending, width))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle through the saved form: pointer tables must not be copied."""
        with self._lock:
            return type(self)._revive, self._contents()

    def _contents(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return self._header(), self._learnt_arrays() | as_arrays(
            list(self._pending), list(self._pending.values()), len(self._schema)
        )

    def _learnt_arrays(self) -> dict[str, Array]:
        arrays = {f"policy.{name}": array for name, array in self._arrays().items()}
        return arrays | {f"encoder.{name}": array for name, array in self._encoder.state().items()}

    def _header(self) -> dict[str, Any]:
        return {
            "class": type(self).__name__,
            "version": __version__,
            "parameters": parameters_of(self),
            "actions": self._action_names,
            "schema": self._schema.to_dict(),
            "steps": self._steps,
            "token": self._token,
            **({"evicted": self._evicted} if self._evicted else {}),
            **({"groups": self._groups.to_list()} if self._groups is not None else {}),
        }

    @classmethod
    def _constructor_arrays(cls, header: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
        """Constructor arguments that are built from arrays."""
        return {}

    @classmethod
    def _revive(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self:
        policy = cls(  # type: ignore[call-arg]
            actions=header["actions"],
            features=Schema.from_dict(header["schema"]),
            **header["parameters"],
            **cls._constructor_arrays(header, arrays),
        )
        policy._action_names = tuple(header["actions"])
        policy._steps = whole("steps", header["steps"], least=0, most=MOST_STEPS)
        policy._token = whole("token", header["token"], least=0)
        if policy._groups is not None:
            policy._groups = GroupSums.from_list(policy._groups.share, header["groups"])
        policy._evicted = whole("evicted", header.get("evicted", 0), least=0)
        numbers, contexts, choices = (arrays[f"waiting.{part}"] for part in ("numbers", "contexts", "choices"))
        policy._check_pending(numbers, contexts, choices, arrays.get("waiting.eligible"))
        policy._pending = from_arrays(arrays)
        policy._encoder.restore({name[8:]: a for name, a in arrays.items() if name.startswith("encoder.")})
        policy._load_state({name[7:]: a for name, a in arrays.items() if name.startswith("policy.")})
        return policy

    def _check_pending(self, numbers: Array, contexts: Array, choices: Array, eligible: Array | None) -> None:
        """Raise a ValueError if the pending decisions of a file are inconsistent."""
        fits = (
            numbers.ndim == 1
            and contexts.shape == (len(numbers), len(self._schema))
            and contexts.dtype == np.dtype(np.float64)
        )
        fits = fits and choices.shape == (len(numbers), 2) and numbers.dtype == choices.dtype == np.dtype(np.int64)
        fits = fits and bool((np.diff(numbers) > 0).all() and (numbers >= 1).all() and (numbers <= self._steps).all())
        if fits:
            categories = np.array([feature.categories > 0 for feature in self._schema.features])
            optional = np.array([feature.missing for feature in self._schema.features]) & ~categories
            inside = (contexts >= 0) & ((contexts < 1) | ((contexts == 1) & ~categories))
            fits = bool((inside | ((contexts == MISSING) & optional)).all())
            actions, known = choices[:, 1], len(self._action_names)
            fits = fits and bool(((choices[:, 0] >= 0) & (choices[:, 0] < actions) & (actions <= known)).all())
        if not fits or (eligible is not None and not are_eligible(eligible, choices)):
            raise ValueError("its pending decisions contradict the rest")


def load(path: str | os.PathLike[str]) -> Any:
    """Load a learner that ``save`` wrote. It continues exactly as the saved one, random draws included.

    Raises
    ------
    releaf.StateError
        If the file is not a complete, unaltered learner of a version that this one can read.
    """
    return _load_learner(*state_file.read(path), str(path))


def from_bytes(content: bytes) -> Any:
    """Load a learner from the bytes of ``to_bytes`` or of a state file.

    Parameters
    ----------
    content
        All bytes.

    Raises
    ------
    releaf.StateError
        If they are not a complete, unaltered learner of a version that this one can read.

    Examples
    --------
    >>> import releaf
    >>> bandit = releaf.Releaf(actions=2, features=3, seed=0)
    >>> releaf.from_bytes(bandit.to_bytes())
    Releaf(2 actions, 3 features, 0 decisions)
    """
    if not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(f"content must be bytes, as to_bytes returns them, got {type(content).__name__}")
    return _load_learner(*state_file.from_bytes(bytes(content), "content"), "content")


def _load_learner(header: dict[str, Any], arrays: dict[str, Array], name: str) -> Any:
    """Build the learner of a state; errors use this name."""
    if header.get("class") not in _REGISTRY:
        raise state_file.StateError(
            f"{name} holds a {header.get('class')!r}, which this version of releaf does not know"
        )
    try:
        return _REGISTRY[header["class"]]._revive(header, arrays)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise state_file.StateError(f"{name} is not a learner that this version of releaf can load: {error}") from error
