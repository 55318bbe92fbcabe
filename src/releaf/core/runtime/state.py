"""Typed state of a learner: one declaration, from which follow pointer table, layout hash, check, file and copy.

A subclass of :class:`LearnerState` declares its arrays::

    class Means(LearnerState):
        clock: Array = learnt(np.int64, 5)
        sums: Array = learnt(np.float64, "actions")
        estimates: Array = scratch(np.float64, "actions")

Kernels cannot take the arrays one by one: passing forty of them costs more than a decision does. So Python passes the
*pointer table*: the hash of the layout, then the address of each array, then all shapes. ``Means.open(pointer_table)``
opens it inside a kernel, and raises where the table has another layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.layout import ArrayField, Dimension, Layout
from releaf.core.runtime.state_view import opener, opener_at


def constant(dtype: Any, *dimensions: Dimension) -> Any:
    """Declare an array that follows from a learner's settings."""
    return ArrayField(np.dtype(dtype), dimensions, "constant")


def learnt(dtype: Any, *dimensions: Dimension, least: float | None = None) -> Any:
    """Declare an array that a learner saves; ``least`` is a lower bound of its values."""
    return ArrayField(np.dtype(dtype), dimensions, "learnt", least)


def scratch(dtype: Any, *dimensions: Dimension) -> Any:
    """Declare an array that each step overwrites."""
    return ArrayField(np.dtype(dtype), dimensions, "scratch")


class LearnerState:
    """Owner of a learner's arrays. Assigning one (``state.sums = …``) converts it and updates the pointer table."""

    layout: ClassVar[Layout]
    flat: ClassVar[bool] = False
    grows: ClassVar[str | None] = None  # name of the dimension that grows while learning
    open: ClassVar[Any]  # open(pointer_table) inside a kernel
    open_at: ClassVar[Any]  # open_at(address of a pointer table) inside a kernel
    pointer_table: Array

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = {name: value for name, value in vars(cls).items() if isinstance(value, ArrayField)}
        for name in own:
            delattr(cls, name)
        inherited = cls.layout.fields if hasattr(cls, "layout") else {}
        cls.layout = Layout(cls.__name__, inherited | own, flat=cls.flat)
        cls.open = staticmethod(opener(cls.layout))
        cls.open_at = staticmethod(opener_at(cls.layout))

    def __init__(self, **arrays: Any) -> None:
        table = np.zeros(self.layout.length, dtype=np.int64)
        table[0] = self.layout.hash
        object.__setattr__(self, "pointer_table", table)
        for name, array in arrays.items():
            setattr(self, name, array)
        if arrays:  # a state without any is built array by array
            self.require_complete()

    def require_complete(self) -> None:
        """Raise a ValueError if an array is missing, or if a dimension has two lengths: kernels check no bounds."""
        missing = [name for name in self.layout.fields if not hasattr(self, name)]
        if missing:
            raise ValueError(f"{type(self).__name__} lacks the arrays {', '.join(missing)}")
        if self.layout.flat:
            return
        lengths: dict[Dimension, int] = {}
        for name, array in self.items():
            for dimension, length in zip(self.layout.fields[name].dimensions, array.shape, strict=True):
                if lengths.setdefault(dimension, dimension if isinstance(dimension, int) else length) != length:
                    raise ValueError(f"{name} has length {length} along {dimension!r}: expected {lengths[dimension]}")

    def __setattr__(self, name: str, values: Any) -> None:
        field = self.layout.fields.get(name)
        if field is None:
            raise AttributeError(f"{type(self).__name__} has no array {name!r}")
        array = np.require(values, dtype=field.dtype, requirements=("C", "W", "A"))
        if self.layout.flat:
            array = array.reshape(-1)
        elif array.ndim != len(field.dimensions):
            raise ValueError(f"{name} has {array.ndim} dimensions: {type(self).__name__} has {field.dimensions}")
        object.__setattr__(self, name, array)
        self.pointer_table[1 + self.layout.index_of[name]] = array.ctypes.data
        start = self.layout.shape_of[name]
        self.pointer_table[start : start + array.ndim] = array.shape

    @property
    def address(self) -> int:
        """Address of the pointer table, for ``open_at``; valid as long as this object exists."""
        return int(self.pointer_table.ctypes.data)

    def __getstate__(self) -> None:
        raise TypeError("a state holds addresses: copy it with copy(), save it with learnt_arrays()")

    def items(self) -> Iterator[tuple[str, Array]]:
        """Name and array of each field that is set."""
        return ((name, getattr(self, name)) for name in self.layout.fields if hasattr(self, name))

    def learnt_arrays(self) -> dict[str, Array]:
        """Copy the arrays that are saved."""
        return {name: getattr(self, name).copy() for name in self.layout.names("learnt")}

    def copy(self) -> Self:
        """Copy all arrays."""
        return type(self)(**{name: array.copy() for name, array in self.items()})

    def replace(self, **arrays: Any) -> Self:
        """Return another state with some arrays replaced, and the others shared."""
        return type(self)(**(dict(self.items()) | arrays))

    def axes(self, dimension: str) -> dict[str, int]:
        """Arrays that have a dimension, and the first axis of each that is it."""
        return {
            name: field.dimensions.index(dimension)
            for name, field in self.layout.fields.items()
            if dimension in field.dimensions
        }

    def size_of(self, dimension: str) -> int:
        """Length of a dimension."""
        name, axis = next(iter(self.axes(dimension).items()))
        return int(getattr(self, name).shape[axis])

    def resized(self, dimension: str, length: int) -> Self:
        """Return another state in which a dimension has another length; new entries are zero."""
        arrays = {name: _resized(getattr(self, name), axis, length) for name, axis in self.axes(dimension).items()}
        return self.replace(**arrays)

    def with_learnt(self, arrays: Mapping[str, Array]) -> Self:
        """Return a state with the arrays of a file in place of the learnt ones, and this one's settings.

        An array of another type or shape, a value that is not finite, or one below its lower bound raises a ValueError.
        """
        expected = self
        if self.grows is not None:
            expected = self.resized(self.grows, _growing_length(self, arrays))
        loaded = {name: np.array(arrays[name], order="C") for name in self.layout.names("learnt")}
        for name, array in loaded.items():
            like, least = getattr(expected, name), self.layout.fields[name].least
            fits = array.dtype == like.dtype and array.shape == like.shape and bool(np.isfinite(array).all())
            if not fits or (least is not None and bool((array < least).any())):
                raise ValueError(f"its {name} contradict the rest")
        return expected.replace(**loaded)


def _growing_length(state: LearnerState, arrays: Mapping[str, Array]) -> int:
    """Length of the growing dimension in the arrays of a file."""
    axes = {name: axis for name, axis in state.axes(state.grows or "").items() if name in arrays}
    for name, axis in axes.items():
        if arrays[name].ndim <= axis:
            raise ValueError(f"its {name} contradict the rest")
    lengths = {arrays[name].shape[axis] for name, axis in axes.items()}
    if len(lengths) != 1:
        raise ValueError("its sizes contradict one another")
    if 0 in lengths:
        raise ValueError("its sizes are zero")
    return int(lengths.pop())


def _resized(array: Array, axis: int, length: int) -> Array:
    shape = list(array.shape)
    shape[axis] = length
    other = np.zeros(shape, dtype=array.dtype)
    common = tuple(slice(min(old, new)) for old, new in zip(array.shape, shape, strict=True))
    other[common] = array[common]
    return other
