"""Request logs as columns."""

from __future__ import annotations

import os
import warnings

import pyarrow as pa

from . import _weirlab
from ._columns import to_arrow, to_number

_KINDS = {"status": pa.uint16(), "client": pa.uint32()}


def trace(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    strict: bool = False,
    everything: bool = False,
    seed: int = 1,
) -> pa.Table:
    """Reads a request log, gzipped or not: a table of `arrival_ns`, `size_bytes`, `status` and `client`.

    The formats are those of `load --trace`: World Cup 98, common and combined logs, CSV; the content shows which, or `format`
    says it. Requests are sorted by time, so that times that go back are put in order; the first is at 0, and gaps stay. Where
    all times are whole seconds, arrivals are spread inside each by `seed`. Requests without a body, and those whose status is
    not 200, are left out unless `everything` is asked for. Lines that cannot be read (a size above 1 PiB, say) are passed over
    with a warning that counts them and names the first; `strict` makes the first an error.
    """
    columns, said, (bad, first) = _weirlab.trace(os.fspath(path), format, strict, everything, to_number("seed", seed))
    if bad:
        warnings.warn(f"{bad} line(s) passed over, the first {first[0]}", stacklevel=2)
    table = pa.table({name: to_arrow(column, _KINDS.get(name)) for name, column in columns.items()})
    return table.replace_schema_metadata({"format": said, "lines_passed_over": str(bad)})
