"""Columns between NumPy, Arrow and the Rust of this package, where they are bytes of little-endian integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.uint64]

# The value that Rust writes where a column has no number.
NONE = np.uint64(2**64 - 1)


def to_numbers(name: str, values: Any) -> Numbers:
    """Whole numbers from 0 as an array, from whatever holds them: a list, an array, a column of Arrow, polars or pandas.

    Raises ValueError with the name and the first value that is none.
    """
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from error
    if array.ndim != 1:
        raise ValueError(f"{name}: {array.ndim} dimensions; give one column")
    if array.size == 0:
        return np.empty(0, np.uint64)
    if array.dtype.kind == "u":
        return array.astype("<u8")
    for at, value in _wrong(array):
        raise ValueError(f"{name}: number {at} is {value!r}; expected a whole number from 0 to 2^64 - 1")
    return array.astype("<u8")


def to_number(name: str, value: Any) -> int:
    """A whole number from 0 for Rust. Raises ValueError with the name if it is none."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or not 0 <= value < 2**64:
        raise ValueError(f"{name}: {value!r} is no whole number from 0 to 2^64 - 1")
    return int(value)


def _wrong(array: npt.NDArray[Any]) -> list[tuple[int, Any]]:
    """The first value that is no whole number from 0, with its place, if there is one."""
    if array.dtype.kind == "i":
        wrong = array < 0
    elif array.dtype.kind == "f":
        # A NaN stands for a missing value in a column of pandas.
        wrong = ~((array >= 0) & (array < 2.0**64) & (array == np.floor(array)))
    else:
        wrong = np.array([not (isinstance(value, int) and 0 <= value < 2**64) for value in array.tolist()])
    places = np.flatnonzero(wrong)[:1]
    return [(int(at), array[at].item() if hasattr(array[at], "item") else array[at]) for at in places]


def to_bytes(name: str, values: Any) -> bytes:
    """The same as bytes for Rust."""
    return to_numbers(name, values).tobytes()


def from_bytes(column: bytes) -> Numbers:
    """The numbers of a column from Rust; they share its memory."""
    return np.frombuffer(column, "<u8")


def to_arrow(column: bytes, kind: pa.DataType | None = None) -> pa.Array:
    """A column from Rust for a table; what has no number is null."""
    numbers = from_bytes(column)
    missing = numbers == NONE
    if not missing.any():
        whole = pa.Array.from_buffers(pa.uint64(), len(numbers), [None, pa.py_buffer(column)])
        return whole if kind is None else whole.cast(kind)
    return pa.array(np.where(missing, 0, numbers), mask=missing).cast(kind or pa.uint64())
