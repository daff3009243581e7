"""Simulations of a link and the jobs sent over it, by the scheduler that the server runs on."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import _weirlab
from ._columns import from_bytes, to_arrow, to_bytes, to_number

Policy = str | Callable[[int, float, float, float, int, _weirlab.Path | None], float]
"""A name (`policies()` lists them), or a function of (size, left, sent, age, class, path) that returns a rank.

`size`, `left` and `sent` are bytes on the link, `age` is the seconds since the job arrived, `class` its number in `classes`,
`path` what is known of the way to its client. The lowest rank is sent first, equal ranks in order of arrival. A rank is asked
for when a job arrives and when bytes of it have been sent, and never because a job waits.
"""


def policies() -> list[str]:
    """The forms of policies that have a name."""
    forms: list[str] = _weirlab.policies().split(", ")
    return forms


def simulate(
    sizes: Any,
    arrivals: Any,
    link: str = "10mbit",
    policy: Policy = "srpt",
    *,
    classes: Any = None,
    wire: str = "plain",
    paths: str = "unknown",
    chunk: int | None = None,
    seed: int = 1,
    call_limit_s: float | None = 1.0,
) -> pa.Table:
    """Simulates these jobs on one link: a table of `arrival_ns`, `size_bytes` and `end_ns`, one row for each.

    `sizes` are bytes (a size of 0 is sent as 1 byte), `arrivals` nanoseconds in order. Service is fluid and preemptive, or in
    grants of `chunk` bytes. Without them a `rank:` that may grow as a job is served has some, which a warning names; under a
    function whose ranks do, a job is sent until the next arrival. `wire="tcp"` adds heads, packets and handshakes;
    `paths="internet"` draws paths by `seed`. A function that raises, or returns what is no number or NaN, ends the run with
    `PolicyError`, which names the job and has the function's exception as its cause; so does a call that takes more than
    `call_limit_s` seconds of the processor.
    """
    grant = None if chunk is None else to_number("chunk", chunk)
    number = to_number("seed", seed)
    settings = SimpleNamespace(link=link, wire=wire, paths=paths, chunk=grant, seed=number, call_limit_s=call_limit_s)
    if not isinstance(policy, str) and not callable(policy):
        raise TypeError(f"policy: {policy!r} is neither a name nor a function")
    if classes is not None and isinstance(policy, str) and not re.search(r"^rank:.*\bclass\b", policy):
        raise ValueError(f"classes: `{policy}` looks at no class; write `rank:` with `class` in it, or give a function")
    size_column, arrival_column = to_bytes("sizes", sizes), to_bytes("arrivals", arrivals)
    of_jobs = None if classes is None else to_bytes("classes", classes)
    if of_jobs is not None and len(of_jobs) != len(size_column):
        raise ValueError(f"classes: {len(of_jobs) // 8} for {len(size_column) // 8} jobs: give one for each")
    ends, cuts, used = _weirlab.simulate(size_column, arrival_column, policy, of_jobs, settings)
    if grant is None and used is not None and str(policy).startswith("rank:"):
        said = f"{policy} may grow as a job is served: service is in chunks of {used} bytes; write chunk="
        warnings.warn(said, stacklevel=2)
    name = policy if isinstance(policy, str) else getattr(policy, "__name__", "function")
    columns = {"arrival_ns": arrival_column, "size_bytes": size_column, "end_ns": ends}
    table = pa.table({column: to_arrow(of) for column, of in columns.items()})
    about = {"policy": name, "link": link, "cuts_bytes": ",".join(map(str, cuts))}
    return table.replace_schema_metadata(about)


def poisson(sizes: str, rho: float, link: str = "10mbit", *, jobs: int = 100_000, seed: int = 1) -> pa.Table:
    """Jobs at the instants of a Poisson process that load the link to `rho`: a table of `arrival_ns` and `size_bytes`.

    `sizes` is a distribution such as `exponential:mean=5000`. They are those of `weirlab sim` with the same seed.
    """
    of_sizes, arrivals = _weirlab.poisson(sizes, rho, link, to_number("jobs", jobs), to_number("seed", seed))
    return pa.table({"arrival_ns": to_arrow(arrivals), "size_bytes": to_arrow(of_sizes)})


def stretch(sizes: Any, arrivals: Any, rho: float, link: str = "10mbit") -> npt.NDArray[np.uint64]:
    """The arrivals stretched in time, the first at 0, so that the jobs load the link to `rho` in the mean."""
    return from_bytes(_weirlab.stretch(to_bytes("sizes", sizes), to_bytes("arrivals", arrivals), link, rho))


def response_ms(table: pa.Table) -> npt.NDArray[np.float64]:
    """The response time of each job of a table with `arrival_ns` and `end_ns`, in milliseconds."""
    ends, arrivals = table["end_ns"].to_numpy(), table["arrival_ns"].to_numpy()
    return np.asarray((ends - arrivals) / 1e6, np.float64)
