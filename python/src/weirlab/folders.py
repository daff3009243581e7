"""Experiments on disk: EXPERIMENT/RUN/, or EXPERIMENT/POINT/RUN/ where something varies. `experiment.toml` and
`left-out.json` lie in EXPERIMENT/. A folder without runs and without these files is a folder of experiments."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .recorded import MANIFEST, RESPONSES, Run, has_records, kept_runs, run_in

FILE = "experiment.toml"
LEFT_OUT = "left-out.json"
_DEPTH_MAX = 5
"""Folders below each other that are looked into: of experiments, of points, of runs, and two to group them by."""
_OF_NO_SETTING = ("seed", "question", "figure")
"""Keys that are no settings of an experiment: its seed and its text for people."""


@dataclass(frozen=True)
class Experiment:
    """Runs that belong together, and what the file of the experiment says of them."""

    name: str
    runs: list[Run]
    """In the order of the file, as far as it says one."""
    text: str = field(default="", repr=False)
    """The text of `experiment.toml`, which is empty if the file was not kept."""
    left_out: dict[str, str] = field(default_factory=dict)
    """The reasons why runs are not here, by `POINT/RUN`."""
    is_whole: bool = True
    """True if the whole experiment was given, not single runs. Runs that are missing are named only then."""

    @cached_property
    def file(self) -> dict[str, Any]:
        """The contents of `experiment.toml`, which are empty if it is missing or cannot be read."""
        try:
            return tomllib.loads(self.text)
        except tomllib.TOMLDecodeError:
            return {}

    @property
    def run_names(self) -> list[str]:
        """Names of `[[run]]`, in their order: the first is what the others are compared with."""
        return [run.get("name", "") for run in self.file.get("run", [])]

    @cached_property
    def point_names(self) -> list[str]:
        """The names of all points that the file makes, in its order; one without a name where nothing varies."""
        return points_of_file(self.file) if self.file else []

    @cached_property
    def settings(self) -> str:
        """The settings in the file, as text, without its seeds and its text for people."""
        if not self.file:
            return self.text
        said = {key: of for key, of in self.file.items() if key not in (*_OF_NO_SETTING, "vary")}
        vary = {key: of for key, of in self.file.get("vary", {}).items() if key != "seed"}
        return json.dumps({**said, **({"vary": vary} if vary else {})}, default=str)

    @property
    def points(self) -> dict[str, list[Run]]:
        """The runs by the name of their point, both in the order of the file."""
        names, points = self.run_names, self.point_names
        ordered = sorted(self.runs, key=lambda run: _place(points, run.point))
        by_name = {point: [run for run in ordered if run.point == point] for point in dict.fromkeys(r.point for r in ordered)}
        return {point: sorted(of, key=lambda run: _place(names, run.name)) for point, of in by_name.items()}

    def absent(self) -> dict[str, list[tuple[str, str]]]:
        """The runs that are not here, by point, with the reason: those with a recorded reason, and others of the file.
        At a point without any run, one entry without a name stands for all runs that have no recorded reason."""
        absent: dict[str, list[tuple[str, str]]] = {}
        for run, reason in sorted(self.left_out.items()):
            point, _, name = run.rpartition("/")
            absent.setdefault(point, []).append((name, reason))
        for point in self.point_names if self.is_whole else []:
            here = [run.path.name for run in self.runs if run.point == point]
            known = absent.setdefault(point, [])
            missing = [name for name in self.run_names if name not in here and all(name != of for of, _ in known)]
            is_empty = not here and len(missing) == len(self.run_names)
            known += [(name, "no finished run is here") for name in ([""] if is_empty else missing)]
        return absent


def points_of_file(said: Mapping[str, Any]) -> list[str]:
    """The names of all points that an experiment's file makes."""
    return ["_".join(of) for of in itertools.product(*_axes(said.get("vary", {})))]


def _place(names: list[str], name: str) -> int:
    return names.index(name) if name in names else len(names)


def _axes(vary: Mapping[str, Any]) -> Iterator[list[str]]:
    """The words that each axis of `[vary]` gives to the names of points."""
    for key, value in vary.items():
        if isinstance(value, dict):
            yield from _axes(value)
        else:
            yield [f"{key}-{_label(of)}" for of in value]


def _label(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name", ""))
    if isinstance(value, list):
        return "-".join(_label(of) for of in value) or "none"
    return str(value).lower() if isinstance(value, bool) else re.sub(r"[^A-Za-z0-9_.-]", "-", str(value))


def experiments_in(*folders: str | os.PathLike[str]) -> list[Experiment]:
    """Every experiment in these folders, which may be of a run, of runs, of an experiment, of experiments, or kept results."""
    found: list[Experiment] = []
    for folder in map(pathlib.Path, folders):
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: no folder is here")
        if (folder / MANIFEST).is_file() and has_records(folder):
            found.append(Experiment(folder.resolve().parent.name, [run_in(folder, "")], _text(folder.parent), is_whole=False))
            continue
        below = list(_look(folder, _DEPTH_MAX))
        if not below:
            raise ValueError(f"{folder}: no run here: neither it nor a folder in it has a {MANIFEST}")
        found += below
    return found


def _look(folder: pathlib.Path, depth: int) -> Iterator[Experiment]:
    if depth == 0:
        return
    name = folder.name or folder.resolve().name or "runs"
    if (folder / RESPONSES).is_dir():
        yield Experiment(name, kept_runs(folder), is_whole=False)
        return
    inner, text, left_out = _folders(folder), _text(folder), _left_out(folder)
    runs = [run_in(of, "") for of in _finished(inner)]
    if runs:
        yield Experiment(name, runs, text, left_out)
    elif text:
        runs = [run_in(of, point.name) for point in inner for of in _finished(_folders(point))]
        if runs or left_out:
            yield Experiment(name, runs, text, left_out)
    else:
        for of in inner:
            yield from _look(of, depth - 1)


def _folders(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(of for of in folder.iterdir() if of.is_dir())


def _finished(folders: list[pathlib.Path]) -> list[pathlib.Path]:
    """Those that are of finished runs; one cut short is named and left out."""
    for of in folders:
        if has_records(of) and not (of / MANIFEST).is_file():
            said = f"left out, it has records but no {MANIFEST}: the run was cut short"
            print(f"weirlab: {of}: {said}", file=sys.stderr)
    return [of for of in folders if has_records(of) and (of / MANIFEST).is_file()]


def _text(folder: pathlib.Path) -> str:
    file = folder / FILE
    return file.read_text() if file.is_file() else ""


def _left_out(folder: pathlib.Path) -> dict[str, str]:
    """The reasons that are kept here, but for runs that were made since."""
    file = folder / LEFT_OUT
    if not file.is_file():
        return {}
    try:
        reasons: dict[str, str] = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return {run: reason for run, reason in reasons.items() if not has_records(folder / run)}
