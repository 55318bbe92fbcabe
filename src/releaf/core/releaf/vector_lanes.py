"""SIMD vectors of float64 inside kernels: one lane for each action.

LLVM does not vectorize loops over a few actions, because it cannot prove that the arrays do not overlap. These
operations are explicit. A *width* is passed as a tuple of that many floats, since the length of a tuple is a
compile-time constant.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, register_model

MAX_WIDTH = 8


def width_for(actions: int) -> tuple[float, ...]:
    """Vector width for this many actions; kernels loop where there are more than MAX_WIDTH."""
    return (0.0,) * min(actions, MAX_WIDTH)


class Lanes(types.Type):
    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Lanes({width})")


def _vector(width: int) -> ir.Type:
    return ir.VectorType(ir.DoubleType(), width)


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, _vector(lanes.width))


def _address(builder: Any, pointer: Any, offset: Any, width: int) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), _vector(width).as_pointer())


@intrinsic
def load(typing_context, pointer, offset, width):  # type: ignore[no-untyped-def]
    """Load the lanes ``pointer[offset : offset + width]``; kernels check no bounds."""
    count = width.count

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load(_address(builder, arguments[0], arguments[1], count), align=8)

    return Lanes(count)(pointer, types.int64, width), generate


@intrinsic
def store(typing_context, pointer, offset, value):  # type: ignore[no-untyped-def]
    """Write the lanes to ``pointer[offset : offset + width]``."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        builder.store(arguments[2], _address(builder, arguments[0], arguments[1], signature.args[2].width), align=8)
        return context.get_dummy_value()

    return types.none(pointer, types.int64, value), generate


@intrinsic
def splat(typing_context, value, width):  # type: ignore[no-untyped-def]
    """Broadcast a value to every lane."""
    count = width.count

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        lanes = ir.Constant(_vector(count), ir.Undefined)
        for position in range(count):
            lanes = builder.insert_element(lanes, arguments[0], ir.Constant(ir.IntType(32), position))
        return lanes

    return Lanes(count)(types.float64, width), generate


def _either(comparison: str) -> Any:
    @intrinsic
    def choose(typing_context, left, right):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            left_wins = builder.fcmp_ordered(comparison, arguments[0], arguments[1])
            return builder.select(left_wins, arguments[0], arguments[1])

        return left(left, right), generate

    return choose


lowest = _either("<")
highest = _either(">")


@intrinsic
def minus(typing_context, left, right):  # type: ignore[no-untyped-def]
    """Lane by lane, left - right."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.fsub(arguments[0], arguments[1])

    return left(left, right), generate


@intrinsic
def pick(typing_context, value, limit, record, yes, no):  # type: ignore[no-untyped-def]
    """Lane by lane: ``yes`` where value <= limit and value < record, else ``no``."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        allowed = builder.fcmp_ordered("<=", arguments[0], arguments[1])
        better = builder.fcmp_ordered("<", arguments[0], arguments[2])
        return builder.select(builder.and_(allowed, better), arguments[3], arguments[4])

    return value(value, value, value, value, value), generate
