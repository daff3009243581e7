"""Experiments on a real kernel in virtual time, by the program `weirlab`."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from .claims import claims
from .recorded import Run, runs

PROGRAM = "WEIRLAB"
"""The variable of the environment that names the program."""


class RunError(RuntimeError):
    """The program ended with a failure; the text is what it said last."""


def program(path: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """The program `weirlab`: as given, else as $WEIRLAB names it, else from PATH."""
    given = os.fspath(path) if path is not None else os.environ.get(PROGRAM)
    found = shutil.which(given or "weirlab")
    if found is None:
        said = f"{given}: no program is here" if given else f"no program `weirlab` in PATH: build it, or name it by {PROGRAM}"
        raise FileNotFoundError(said)
    return pathlib.Path(found)


def run(
    experiment: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    only: Sequence[str] = (),
    points: Sequence[str] = (),
    seconds: int | None = None,
    seed: int | None = None,
    parallel: int | None = None,
    weirlab: str | os.PathLike[str] | None = None,
    show: bool = False,
) -> list[Run]:
    """Runs an experiment with `weirlab run --virtual` into the folder `out`, and returns its runs.

    What is finished there is not done again, so the same call continues after an interruption. `show` lets the program's output
    through. Raises ValueError, before anything is run, if a claim of the experiment speaks of what it has not, and RunError if
    the program fails; the runs that were finished stay.
    """
    if pathlib.Path(experiment).is_file():
        claims(experiment)
    command = [os.fspath(program(weirlab)), "run", "--virtual", os.fspath(experiment), "--out", os.fspath(out)]
    for flag, names in (("--only", only), ("--points", points)):
        command += [flag, ",".join(names)] if names else []
    for flag, number in (("--seconds", seconds), ("--seed", seed), ("--parallel", parallel)):
        command += [flag, str(number)] if number is not None else []
    _call(command, stdout=None if show else subprocess.DEVNULL, stderr=None if show else subprocess.PIPE)
    return runs(out)


def sim(*, weirlab: str | os.PathLike[str] | None = None, **flags: Any) -> dict[str, Any]:
    """Simulates with `weirlab sim`, whose flags these are, and returns what `--json` prints: also the models of a web server
    (`model="server"`) and of TCP over a bottleneck (`model="packet"`).

    `warm_up=100` is `--warm-up 100`; a list is the flag repeated, True the flag alone. So it is a point of a sweep.
    """
    command = [os.fspath(program(weirlab)), "sim", "--json"]
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            command.append(flag)
        elif value is not False and value is not None:
            values = value if isinstance(value, (list, tuple)) else [value]
            command += [word for one in values for word in (flag, str(one))]
    said: dict[str, Any] = json.loads(_call(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    return said


def _call(command: Sequence[str], stdout: int | None, stderr: int | None) -> str:
    """Runs the program and returns what it prints. If it fails, RunError has the last line of its errors."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, text=True, errors="replace")
    if done.returncode != 0:
        last = (done.stderr or "").strip().splitlines()[-1:]
        raise RunError(f"{' '.join(command)}: exit status {done.returncode}{': ' if last else ''}{''.join(last)}")
    return done.stdout or ""
