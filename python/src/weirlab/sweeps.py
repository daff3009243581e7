"""Grids of points: pure functions of their parameters, on this machine's processors or on a cluster of Ray.

A point's result takes its name in the sweep's folder once it is whole, under a key of all that determines it. So a worker that
dies costs the points in flight, which are done again, and the same call continues what a full disk or a signal ended.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import inspect
import itertools
import json
import os
import pathlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for
from typing import Any, Protocol

import pyarrow as pa

Point = dict[str, Any]
Result = dict[str, Any]
Function = Callable[..., Mapping[str, Any]]

RETRIES_MAX = 3
"""The most times that a point is begun again because its worker died."""
IN_FLIGHT_PER_WORKER = 2
"""Points handed out before their results are kept."""
POINTS_MAX = 1_000_000
"""The most points of a grid."""


class SweepError(RuntimeError):
    """Points failed, or their results could not be kept. What is kept stays, and the same call does the rest."""


def sweep(
    function: Function,
    grid: Mapping[str, Sequence[Any]],
    out: str | os.PathLike[str],
    *,
    fixed: Mapping[str, Any] | None = None,
    workers: int | None = None,
    engine: str = "local",
    progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """Calls the function for every combination of the grid's values, and returns a row for each: parameters, then results.

    The function takes the parameters by name, returns a dictionary of numbers and text, and depends on nothing else: its source,
    the version of this package and the parameters are the key of its result in `out`. Parameters are what JSON has. `engine` is
    "local" (processes; the function is one of a module) or "ray": the cluster that `ray.init` joined, else one of this machine.
    A point that raises, or returns NaN, a number of NumPy's or the name of a parameter, does not end the others; SweepError names
    it in the end. What some results have and others have not is null in the others.
    """
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    points = list(_points(grid, fixed or {}))
    keys = [_key(function, point) for point in points]
    kept = {key: _read(folder, key) for key in keys}
    todo = {key: point for key, point in zip(keys, points, strict=True) if kept[key] is None}
    failed: dict[str, BaseException] = {}
    count = workers or os.cpu_count() or 1
    if todo:
        with _engine(engine, count) as pool:
            for key, outcome in _conduct(pool, function, todo, count * IN_FLIGHT_PER_WORKER):
                of = outcome if isinstance(outcome, BaseException) else _checked(todo[key], outcome)
                if isinstance(of, BaseException):
                    failed[key] = of
                else:
                    kept[key] = _keep(folder, key, todo[key], of, _done(kept))
                if progress is not None:
                    progress(*_done(kept))
    if failed:
        key, error = next(iter(failed.items()))
        named = f"{len(failed)} of {len(points)} points failed, the first {_words(todo[key])}: {type(error).__name__}: {error}"
        raise SweepError(named) from error
    return _table([{**point, **(kept[key] or {})} for key, point in zip(keys, points, strict=True)])


def _table(rows: Sequence[Point]) -> pa.Table:
    """A column for every name of any row, in the order in which they come; what a row has not is null."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        try:
            columns[name] = pa.array([row.get(name) for row in rows])
        except pa.ArrowException as error:
            raise SweepError(f"`{name}` is of several kinds ({error}): return numbers everywhere, or text everywhere") from error
    return pa.table(columns)


def _points(grid: Mapping[str, Sequence[Any]], fixed: Mapping[str, Any]) -> Iterator[Point]:
    both = set(grid) & set(fixed)
    if both:
        raise ValueError(f"fixed: `{min(both)}` is in the grid, too")
    count = 1
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ValueError(f"grid: `{name}` is {values!r}: give a list of one value or more")
        count *= len(values)
    if count > POINTS_MAX:
        raise ValueError(f"grid: {count} points are more than {POINTS_MAX}")
    for values in itertools.product(*grid.values()):
        yield {**fixed, **dict(zip(grid, values, strict=True))}


def _key(function: Function, point: Point) -> str:
    """A name of all that determines the result."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = ""
    name = f"{function.__module__}.{function.__qualname__}"
    try:
        said = json.dumps([name, source, importlib.metadata.version("weirlab"), point], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"point {_words(point)}: {error}; write a name, and let the function choose by it") from error
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _words(point: Point) -> str:
    return ", ".join(f"{name}={value}" for name, value in point.items())


def _read(folder: pathlib.Path, key: str) -> Result | None:
    path = folder / f"{key}.json"
    if not path.exists():
        return None
    try:
        result: Result = json.loads(path.read_text())["result"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: no result of a point ({error}): remove it, and it is computed again") from error
    return result


def _done(kept: Mapping[str, Result | None]) -> tuple[int, int]:
    """The number of results that are kept, and the number of all points."""
    return sum(of is not None for of in kept.values()), len(kept)


def _checked(point: Point, result: Result) -> Result | ValueError:
    """Returns the result, or what is wrong with it."""
    for name, value in result.items():
        if not isinstance(name, str):
            return ValueError(f"its result has the key {name!r}: write a text")
        if name in point:
            return ValueError(f"its result has `{name}`, which is a parameter: give it another name")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            kind = f"{value!r}, a {type(value).__module__}.{type(value).__name__}"
            return ValueError(f"its result's `{name}` is {kind}: return int(...), float(...) or text, and None for no number")
    return result


def _keep(folder: pathlib.Path, key: str, point: Point, result: Result, done: tuple[int, int]) -> Result:
    """Writes a result under another name, and gives it its own once it is whole."""
    text = json.dumps({"point": point, "result": result})
    path, part = folder / f"{key}.json", folder / f".part-{key}.json"
    try:
        with part.open("w") as file:
            file.write(text)
            file.flush()
            if part.is_file():
                os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        said = f"{path}: {error.strerror}: {done[0]} of {done[1]} points are kept; make room and call again"
        raise SweepError(said) from error
    return result


class _Pool(Protocol):
    """Where points are computed."""

    def submit(self, function: Function, point: Point) -> Any: ...

    def wait(self, running: Iterable[Any]) -> list[tuple[Any, Result | BaseException]]:
        """Waits for a task to end, and returns all that have ended. The death of a worker is an outcome too."""

    def is_death(self, outcome: BaseException) -> bool: ...


def _conduct(
    pool: _Pool, function: Function, todo: Mapping[str, Point], in_flight_max: int
) -> Iterator[tuple[str, Result | BaseException]]:
    """Every point with its result, or why there is none, in the order in which they end."""
    waiting, suspects = list(reversed(list(todo))), dict.fromkeys(todo, 0)
    running: dict[Any, str] = {}
    while waiting or running:
        # A point that was running when a worker died is tried alone, which shows whether the fault is its own.
        alone = any(suspects.values())
        while waiting and len(running) < (1 if alone else in_flight_max):
            key = waiting.pop()
            running[pool.submit(function, todo[key])] = key
        for task, outcome in pool.wait(running):
            key = running.pop(task)
            if isinstance(outcome, BaseException) and pool.is_death(outcome) and suspects[key] <= RETRIES_MAX:
                suspects[key] += 1
                waiting.append(key)
            else:
                suspects[key] = 0
                yield key, outcome


def _call(function: Function, point: Point) -> Result:
    return dict(function(**point))


def _end_with_parent() -> None:
    """Ends this worker when the sweep's process is gone: a killed one cannot say so, and its workers would wait for ever."""

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            wait_for([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Processes:
    """Processes of this machine; all are begun anew where one died, since its pool is of no use then."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.pool = self._begin()

    def _begin(self) -> ProcessPoolExecutor:
        # A fork of a process with threads may hang.
        return ProcessPoolExecutor(self.count, mp_context=get_context("spawn"), initializer=_end_with_parent)

    def submit(self, function: Function, point: Point) -> Future[Result]:
        try:
            return self.pool.submit(_call, function, point)
        except BrokenProcessPool:
            self.pool.shutdown(wait=True, cancel_futures=True)
            self.pool = self._begin()
            return self.pool.submit(_call, function, point)

    def wait(self, running: Iterable[Future[Result]]) -> list[tuple[Future[Result], Result | BaseException]]:
        ended, _ = wait(list(running), return_when=FIRST_COMPLETED)
        # In the order in which they were begun: what comes after one that cannot be kept is lost.
        return [(task, task.exception() or task.result()) for task in running if task in ended]

    def is_death(self, outcome: BaseException) -> bool:
        return isinstance(outcome, BrokenProcessPool)


class _Ray:
    """Tasks of Ray."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.call = ray.remote(max_retries=0)(_call)

    def submit(self, function: Function, point: Point) -> Any:
        return self.call.remote(function, point)

    def wait(self, running: Iterable[Any]) -> list[tuple[Any, Result | BaseException]]:
        ended, _ = self.ray.wait(list(running), num_returns=1)
        return [(task, self._outcome(task)) for task in ended]

    def _outcome(self, task: Any) -> Result | BaseException:
        try:
            result: Result = self.ray.get(task)
            return result
        except self.ray.exceptions.RayTaskError as error:
            cause: BaseException = error.cause
            return cause
        except Exception as error:
            return error

    def is_death(self, outcome: BaseException) -> bool:
        died = (self.ray.exceptions.WorkerCrashedError, self.ray.exceptions.NodeDiedError, self.ray.exceptions.OutOfMemoryError)
        return isinstance(outcome, died)


@contextmanager
def _engine(name: str, workers: int) -> Iterator[_Pool]:
    if name == "local":
        processes = _Processes(workers)
        try:
            yield processes
        finally:
            processes.pool.shutdown(wait=True, cancel_futures=True)
    elif name == "ray":
        with _cluster(workers) as ray:
            yield _Ray(ray)
    else:
        raise ValueError(f"engine: `{name}`: write local or ray")


# The memory in which a cluster of this machine keeps results on their way.
_OBJECT_STORE_BYTES = 128 * 1024 * 1024


@contextmanager
def _cluster(workers: int) -> Iterator[Any]:
    """Ray as it was joined, else one of this machine, which ends with the sweep and reports to nobody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise ImportError("engine: ray is not installed: pip install 'weirlab[ray]'") from error
    if ray.is_initialized():
        yield ray
        return
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(num_cpus=workers, object_store_memory=_OBJECT_STORE_BYTES, **quiet)
    try:
        yield ray
    finally:
        ray.shutdown()
