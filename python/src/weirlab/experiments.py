"""Experiments on a real kernel in virtual time, by the program `weirlab`."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from collections.abc import Sequence

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
    through. Raises RunError if the program fails; the runs that were finished stay.
    """
    command = [os.fspath(program(weirlab)), "run", "--virtual", os.fspath(experiment), "--out", os.fspath(out)]
    for flag, names in (("--only", only), ("--points", points)):
        command += [flag, ",".join(names)] if names else []
    for flag, number in (("--seconds", seconds), ("--seed", seed), ("--parallel", parallel)):
        command += [flag, str(number)] if number is not None else []
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stderr=None if show else subprocess.PIPE,
        stdout=None if show else subprocess.DEVNULL,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        last = (done.stderr or "").strip().splitlines()[-1:]
        raise RunError(f"{' '.join(command)}: exit status {done.returncode}{': ' if last else ''}{''.join(last)}")
    return runs(out)
