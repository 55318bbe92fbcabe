"""Typed pointers from integer addresses inside a kernel.

Passing each array of a state as an argument would cost more than a decision does.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic


def _pointer_to(element: Any) -> Any:
    @intrinsic
    def pointer(typing_context, address):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(element)(types.int64), generate  # type: ignore[attr-defined]

    return pointer


_ELEMENTS: dict[str, Any] = {
    "int64": types.int64,
    "int32": types.int32,
    "float64": types.float64,
    "float32": types.float32,
    "uint8": types.uint8,
}
# at_int64(address) and the others by name, for kernels that are generated as text
POINTERS = {f"at_{name}": _pointer_to(element) for name, element in _ELEMENTS.items()}
