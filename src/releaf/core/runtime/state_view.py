"""View of a state inside kernels: one pointer to its pointer table, from which each array opens where it is used.

To a kernel, a state is an argument of one word, however many arrays it has. So a function that uses two of forty arrays
compiles as fast as a function of two. Addresses and shapes load as invariant: LLVM moves them out of loops.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.np.arrayobj import make_array, populate_array

from releaf.core.runtime.jit import IS_COMPILED, inlined
from releaf.core.runtime.layout import Layout

_WORD = ir.IntType(64)
_pointer_to: Any = types.CPointer  # type: ignore[attr-defined]
MISMATCH = "the pointer table is of another state than the kernel's, or of another version of it"


class StateView(types.Type):
    """Numba type of an opened state."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        super().__init__(name=f"State({layout.text})")

    def type_of(self, name: str) -> Any:
        """Numba type of an array of the state."""
        if self.layout.flat and name == "lengths":
            return _pointer_to(types.int64)
        field = self.layout.fields.get(name)
        if field is None:
            return None
        element = numba.from_dtype(field.dtype)
        return _pointer_to(element) if self.layout.flat else types.Array(element, len(field.dimensions), "C")


@register_model(StateView)
class _StateViewModel(models.PrimitiveModel):
    def __init__(self, manager: Any, view: StateView) -> None:
        super().__init__(manager, view, _WORD.as_pointer())


@infer_getattr
class _StateViewAttributes(AttributeTemplate):
    key = StateView

    def generic_resolve(self, view: StateView, name: str) -> Any:
        return view.type_of(name)


@lower_getattr_generic(StateView)
def _open_array(context, builder, view, table, name):
    """Generate the code that opens an array of a state."""
    layout, opened = view.layout, view.type_of(name)
    if layout.flat and name == "lengths":
        return builder.gep(table, [_WORD(layout.shape_of[next(iter(layout.fields))])])
    address = _load_word(builder, table, 1 + layout.index_of[name])
    pointer = builder.inttoptr(address, context.get_data_type(opened.dtype).as_pointer())
    if layout.flat:
        return pointer
    first = layout.shape_of[name]
    shape = [_load_word(builder, table, first + axis) for axis in range(opened.ndim)]
    width = context.get_abi_sizeof(context.get_data_type(opened.dtype))
    strides: list[Any] = []
    step = _WORD(width)
    for length in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, length)
    array = make_array(opened)(context, builder)
    populate_array(array, data=pointer, shape=shape, strides=strides, itemsize=_WORD(width), meminfo=None)
    return array._getvalue()


def _load_word(builder, table, index):
    word = builder.load(builder.gep(table, [_WORD(index)]))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))  # Python changes the table between calls only
    return word


def opener(layout: Layout) -> Callable[[Any], Any]:
    """Make ``open(pointer_table)`` for the kernels of a layout; it raises a RuntimeError where the hash differs."""
    if not IS_COMPILED:
        return lambda pointer_table: _open_in_python(layout, pointer_table)
    view = StateView(layout)

    @intrinsic
    def cast(typing_context, pointer_table):
        def generate(context, builder, signature, arguments):
            return context.make_array(signature.args[0])(context, builder, arguments[0]).data

        return view(pointer_table), generate

    expected = layout.hash

    @inlined
    def open_state(pointer_table):
        if pointer_table[0] != expected:
            raise RuntimeError(MISMATCH)
        return cast(pointer_table)

    return open_state


def opener_at(layout: Layout) -> Callable[[Any], Any]:
    """Make ``open_at(address)``, which opens a state by the address of its pointer table, stored in another state."""
    if not IS_COMPILED:
        return lambda address: _open_in_python(layout, _words_at(int(address), layout.length))
    view = StateView(layout)

    @intrinsic
    def first_word(typing_context, address):
        def generate(context, builder, signature, arguments):
            return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()))

        return types.int64(types.int64), generate

    @intrinsic
    def cast(typing_context, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], _WORD.as_pointer())

        return view(types.int64), generate

    expected = layout.hash

    @inlined
    def open_at(address):
        if first_word(address) != expected:
            raise RuntimeError(MISMATCH)
        return cast(address)

    return open_at


def _words_at(address: int, length: int) -> Any:
    block: Any = (ctypes.c_char * (8 * length)).from_address(address)
    return np.frombuffer(block, dtype=np.int64)


def _open_in_python(layout: Layout, pointer_table: Any) -> Any:
    """Open the arrays of a state in plain Python."""
    if pointer_table[0] != layout.hash:
        raise RuntimeError(MISMATCH)
    opened = SimpleNamespace()
    for name, field in layout.fields.items():
        start = layout.shape_of[name]
        shape = pointer_table[start : start + (1 if layout.flat else len(field.dimensions))].tolist()
        address = int(pointer_table[1 + layout.index_of[name]])
        size = int(np.prod(shape)) * field.dtype.itemsize
        block: Any = (ctypes.c_char * size).from_address(address) if address else bytearray(0)
        setattr(opened, name, np.frombuffer(block, dtype=field.dtype).reshape(shape if address else -1))
    if layout.flat:
        opened.lengths = pointer_table[layout.shape_of[next(iter(layout.fields))] :]
    return opened
