"""Claims of experiments: statements that a program can check, so that a verdict is computed and not felt."""

from __future__ import annotations

import math
import os
import pathlib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from .conditions import number
from .figures import check_name, is_of_pairs
from .folders import points_of_file
from .intervals import Estimate
from .recorded import without_seed

TRACES_MIN = 5
"""Traces with requests of their own that a verdict needs: an interval over two or three decides nothing, or wrongly by chance."""
ORACLES = ("bound", "ideal-ps")
"""Names that a claim may use in addition to the names of runs."""

REPRODUCED, LARGER, REFUTED, UNDECIDED = "reproduced", "larger", "refuted", "undecided"
NOT_COMPARABLE, NOT_MEASURED, VOID = "not comparable", "not measured", "void"
VERDICTS = (REPRODUCED, LARGER, REFUTED, UNDECIDED, NOT_COMPARABLE, NOT_MEASURED, VOID)
"""From the best to the worst."""
DECIDED = (REPRODUCED, LARGER, REFUTED)


@dataclass(frozen=True)
class Claim:
    """A statement of an experiment: a figure of `of`, or that over the same of `over`, lies from `least` to `most`."""

    text: str
    value: str
    of: Any
    """A run, or of a sweep the values of a cell."""
    over: Any = None
    point: str | None = None
    against: str | None = None
    """Another point: what counts is the figure over the same one there, with the same seed."""
    least: float | None = None
    most: float | None = None
    larger: str | None = None
    """Beyond which end the effect is larger than the paper's: `more` or `less`."""
    one_sided: str | None = None
    """The paper's statement, where it has one side."""
    sizes: tuple[float, float] | None = None
    client: str | None = None
    seconds: float | None = None
    """The length of the paper's run in seconds, where the claimed figure grows with it."""
    items: tuple[int, ...] = ()

    @property
    def is_ratio(self) -> bool:
        """True if the claim is about the ratio of two runs or of two points."""
        return self.against is not None or (self.over is not None and not is_of_pairs(self.value))

    @property
    def has_size(self) -> bool:
        """True if the claim gives both ends of its range, or quotes the paper's statement that has one side."""
        return (self.least is not None and self.most is not None) or bool(self.one_sided)

    @property
    def ends(self) -> tuple[float, float]:
        """The range that it claims."""
        return -math.inf if self.least is None else self.least, math.inf if self.most is None else self.most

    def verdict(self, found: Estimate, traces: int) -> str:
        """`reproduced`, `larger`, `refuted`, `undecided` or `not comparable`: the interval decides, never the point."""
        return self.judged(found, traces)[0]

    def judged(self, found: Estimate, traces: int) -> tuple[str, str | None]:
        """The verdict, and what else is said."""
        if not self.has_size:
            return NOT_COMPARABLE, "the claim has one side, and does not say that the paper's statement has one (one_sided)"
        if traces < TRACES_MIN or found.low is None or found.high is None:
            return UNDECIDED, f"{traces} trace{'' if traces == 1 else 's'}; a verdict needs {TRACES_MIN}"
        (least, most), low, high = self.ends, found.low, found.high
        if most == 0 < found.value:
            return REFUTED, "it happened in a trace, and counts are never below 0"
        if low >= least and high <= most:
            return REPRODUCED, None
        if low <= most and high >= least:
            within = [number(end) for end in (self.least, self.most) if end is not None and low <= end <= high]
            return UNDECIDED, f"the interval includes {' and '.join(within)}"
        if (self.larger == "more" and low > most) or (self.larger == "less" and high < least):
            return LARGER, None
        return REFUTED, self._right_way(found.value)

    def _right_way(self, value: float) -> str | None:
        """Returns a remark on a ratio that misses in the claimed direction. Its range must lie on one side of 1."""
        least, most = self.ends
        if self.is_ratio and least >= 1 and value > 1:
            return f"its direction, by {'more' if value > most else 'less'}"
        if self.is_ratio and most <= 1 and value < 1:
            return f"its direction, by {'more' if value < least else 'less'}"
        return None


def claims(experiment: str | os.PathLike[str]) -> list[Claim]:
    """The claims of an experiment's file (`[[figure.expect]]`, of a sweep `[[claim]]`); they speak of what it has."""
    path = pathlib.Path(experiment)
    try:
        return claims_of(with_setups(tomllib.loads(path.read_text()), path))
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def with_setups(said: dict[str, Any], path: pathlib.Path) -> dict[str, Any]:
    """Returns the keys of the file together with those of its setup (`setup = "papers"`: `../setups/papers.toml`)."""
    setup = path.parent.parent / "setups" / f"{said.get('setup')}.toml"
    if "setup" not in said or not setup.is_file():
        return said
    below = with_setups(tomllib.loads(setup.read_text()), setup)
    lists: dict[str, Any] = {
        key: below.get(key, []) + said.get(key, []) for key in ("run", "client", "class") if key in {**below, **said}
    }
    return {**below, **said, **lists}


def claims_of(said: dict[str, Any]) -> list[Claim]:
    """The claims of what an experiment's file says."""
    runs = [run.get("name") for run in said.get("run", [])]
    clients = [of.get("name") for of in said.get("client", [])] + [of.split(":")[0] for of in said.get("class", [])]
    points = {name for point in points_of_file(said) for name in (point, without_seed(point))}
    stated = [_claim(of) for of in said.get("figure", {}).get("expect", [])]
    for claim in stated:
        _check(claim)
        check_name(claim.value)
        if runs:
            _check_names(claim, runs, clients)
            unknown = {claim.point, claim.against} - {None, *points}
            if unknown:
                raise ValueError(
                    f"`{claim.text}` speaks of point `{min(map(str, unknown))}`; the points are {', '.join(sorted(points))}"
                )
    of_cells = [_claim(of) for of in said.get("claim", [])]
    for claim in of_cells:
        _check(claim)
    return stated + of_cells


_KEYS = {key.name for key in fields(Claim)}


def _claim(of: dict[str, Any]) -> Claim:
    unknown = sorted(set(of) - _KEYS)
    if unknown:
        raise ValueError(f"a claim has no key '{unknown[0]}'")
    absent = sorted({"text", "value", "of"} - set(of))
    if absent:
        raise ValueError(f"the claim `{of.get('text', '')}` has no `{absent[0]}`")
    for key in ("text", "value"):
        if not isinstance(of[key], str):
            raise ValueError(f"claim: {key} is `{of[key]}`: write a text")
    for key in ("least", "most", "seconds"):
        if key in of and (not isinstance(of[key], (int, float)) or isinstance(of[key], bool)):
            raise ValueError(f"the claim `{of['text']}`: {key} is `{of[key]}`: write a number")
    for key in ("sizes", "items"):
        if not isinstance(of.get(key, []), list):
            raise ValueError(f"the claim `{of['text']}`: {key} is `{of[key]}`: write a list of numbers")
    tuples: dict[str, Any] = {key: tuple(of[key]) for key in ("sizes", "items") if key in of}
    return Claim(**{**of, **tuples})


def _check(claim: Claim) -> None:
    least, most = claim.ends
    if (claim.least is None and claim.most is None) or not least <= most:
        raise ValueError(f"`{claim.text}` claims nothing: write least, or most, or both, the lesser as least")
    if claim.larger not in (None, "more", "less"):
        raise ValueError(f"`{claim.text}`: larger is `{claim.larger}`: write more or less")
    if claim.one_sided is not None and claim.least is not None and claim.most is not None:
        raise ValueError(f"`{claim.text}` has two sides: leave one_sided out, or least or most")
    if claim.seconds is not None and not 0 < claim.seconds < math.inf:
        raise ValueError(f"`{claim.text}`: seconds is how long the paper's run was, above 0")
    if claim.sizes is not None and not (len(claim.sizes) == 2 and 0 <= claim.sizes[0] < claim.sizes[1] <= 100):
        raise ValueError(f"sizes = {list(claim.sizes)} are no percentiles: write two from 0 to 100, the lesser first")
    if claim.against is not None and (claim.point is None or claim.against == claim.point):
        raise ValueError(f"`{claim.text}` compares two points: write point, and another as against")
    if is_of_pairs(claim.value) and claim.over is None:
        raise ValueError(f"`{claim.value}` compares two runs: write over")


def _check_names(claim: Claim, runs: Sequence[str | None], clients: Sequence[str | None]) -> None:
    for name in (claim.of, claim.over):
        if name is not None and name not in (*runs, *ORACLES):
            raise ValueError(f"there is no run `{name}`; the runs are {', '.join(map(str, runs))}, and {' and '.join(ORACLES)}")
    if claim.client is not None and claim.client not in clients:
        raise ValueError(f"there is no client `{claim.client}`; the clients are {', '.join(map(str, clients))}")
