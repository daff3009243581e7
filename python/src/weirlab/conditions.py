"""The conditions that two compared runs have in common, and the check that the link of a run was a wire."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _weirlab
from ._columns import from_bytes, to_bytes
from .recorded import Responses, Run

_LENGTH_PART = 0.02
"""Runs as long as each other to this part are of one length."""
_CLOCKS_NS = 1_000
"""The time by which a response may seem to end before its bytes have crossed the link: two programs read the clock."""
_SEGMENT_BYTES = 1448
NOT_A_WIRE = "not a wire: "


def apart(one: Run, other: Run) -> str | None:
    """Returns the reason why two runs are not compared, or None: a run of 200 s says nothing of a run of 30 minutes."""
    mine, theirs = (of.manifest.get("seconds") for of in (one, other))
    if mine is not None and theirs is not None and is_of_other_length(mine, theirs):
        return f"{one.name} ran for {number(mine)} s, {other.name} for {number(theirs)}"
    for (what, is_one), (_, is_other) in zip(_physics(one), _physics(other), strict=True):
        if is_one != is_other:
            return f"{what}: {is_one} ({one.name}), {is_other} ({other.name})"
    return None


def in_words(run: Run) -> str:
    """The same for runs that are compared."""
    said = [f"{number(run.manifest.get('seconds', 0))} s", *(f"{what}: {of}" for what, of in _physics(run))]
    return ", ".join(said)


def is_of_other_length(one: float, other: float) -> bool:
    """Returns whether two lengths of runs, in seconds, are too different to compare the runs."""
    return abs(one - other) > _LENGTH_PART * max(one, other)


def number(value: float) -> str:
    """A number as people write it: 100, and not 100.0."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e16 else str(value)


def _physics(run: Run) -> list[tuple[str, str]]:
    """The conditions that decide how packets move, and that the server does not choose."""
    said = run.environment
    return [
        ("link", "a wire" if "wire" in said else "a token bucket"),
        ("clock", said.get("clock", "real")),
        ("network", said.get("wan_paths", "no delay or loss")),
        ("largest packets", said.get("gso_max_segs", "as the kernel has them")),
    ]


def not_a_wire(run: Run, of: Responses) -> str | None:
    """The warning for figures that depend on the link. It is None if the link serialised or if too little was kept."""
    link: Any = run.manifest.get("link_bps")
    if not link or of.head_bytes is None or of.body_bytes is None:
        return None
    bodies = to_bytes("body_bytes", of.body_bytes)
    if run.manifest.get("wire") == "plain":
        needed = from_bytes(_weirlab.alone_plain(bodies, f"{link}bit"))
    else:
        needed = from_bytes(_weirlab.alone(bodies, to_bytes("head_bytes", of.head_bytes), f"{link}bit"))
    packets = (of.head_bytes + of.body_bytes + np.uint64(_SEGMENT_BYTES - 1)) // np.uint64(_SEGMENT_BYTES)
    beat = int(np.count_nonzero(of.is_complete & (of.ms * 1e6 + _CLOCKS_NS + packets < needed - 0.5)))
    if beat == 0:
        return None
    done = int(np.count_nonzero(of.is_complete))
    return (
        f"{beat} of {done} jobs beat their own wire time: the link does not serialise, and ratios to a bound are not comparable"
    )
