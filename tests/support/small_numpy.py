"""What LangGraph's savers ask of numpy, in the place of numpy itself, which nothing here needs: `use` makes it the
module of that name for a test. Arrays know their type, shape, order and bytes, and refuse to be true or false."""

from __future__ import annotations

import sys
from math import prod
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Type:
    """The type of an array's elements, as numpy writes it: `<f8`, `<U3`, `|O8`."""

    def __init__(self, text: str) -> None:
        self.str, self.kind = text, text[1]
        self.itemsize = int(text[2:].partition("[")[0])


class Array:
    """`numpy.ndarray`, as it is called there."""

    def __init__(self, shape: Any, dtype: Any, buffer: Any, *, order: str = "C") -> None:
        if prod(shape) * dtype.itemsize > len(buffer):
            raise TypeError("buffer is too small for requested array")
        self.shape, self.dtype, self.buffer = tuple(shape), dtype, buffer
        self.flags = SimpleNamespace(c_contiguous=order == "C", f_contiguous=order == "F")

    def tobytes(self, order: str) -> bytes:
        """The content in the order that it is kept in."""
        assert self.flags.f_contiguous == (order == "F")
        return bytes(self.buffer)

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


def array(kind: str, shape: tuple[int, ...], content: bytes, order: str = "C") -> Array:
    """An array of this content."""
    return Array(shape, Type(kind), bytearray(content), order=order)


def use(patch: pytest.MonkeyPatch) -> None:
    """Let it be numpy, for this test."""
    module: Any = ModuleType("numpy")
    module.ndarray, module.dtype = Array, Type
    patch.setitem(sys.modules, "numpy", module)
