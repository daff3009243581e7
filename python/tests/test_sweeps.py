"""Sweeps on processes and on Ray: resumed, with workers killed, with a full disk."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import points
import pytest

import weirlab
from weirlab import sweeps

HERE = pathlib.Path(__file__).parent
WAIT_S = 60


def engines():
    """Both, Ray where it is installed."""
    try:
        import ray  # noqa: F401
    except ImportError:
        reason = "SKIPPED: ray is not installed: pip install 'weirlab[ray]'"
        return ["local", pytest.param("ray", marks=pytest.mark.skip(reason=reason))]
    return ["local", "ray"]


@pytest.fixture(autouse=True)
def path_of_points(monkeypatch):
    """Workers import `points`, too."""
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(HERE), before])))


@pytest.fixture(scope="module")
def cluster():
    """A cluster that many sweeps join."""
    import ray

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(HERE))
        with sweeps._cluster(2):
            yield ray


@pytest.fixture(params=engines())
def engine(request):
    if request.param == "ray":
        request.getfixturevalue("cluster")
    return request.param


@pytest.fixture
def calls(tmp_path):
    folder = tmp_path / "calls"
    folder.mkdir()
    return folder


def numbers_called(folder):
    return sorted(int(file.name.split("-")[0]) for file in folder.iterdir() if "-" in file.name)


def is_running(process):
    """Whether it is there, and no zombie that nobody has asked for."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_grid_of_simulations_is_the_same_everywhere(engine, tmp_path):
    grid = {"policy": ["srpt", "fcfs"], "rho": [0.5, 0.8], "seed": [1, 2]}
    seen = []
    table = weirlab.sweep(
        points.simulated, grid, tmp_path / engine, engine=engine, workers=2, progress=lambda *at: seen.append(at)
    )
    assert table.column_names == ["policy", "rho", "seed", "mean_ms", "jobs"]
    rows = table.to_pylist()
    assert len(rows) == 8 and rows[0]["policy"] == "srpt" and rows[-1]["policy"] == "fcfs"
    for row in rows:
        here = points.simulated(row["policy"], row["rho"], row["seed"])
        assert {name: row[name] for name in here} == here
    assert seen[-1] == (8, 8) and len(seen) == 8


@pytest.mark.skipif("ray" not in engines(), reason="SKIPPED: ray is not installed: pip install 'weirlab[ray]'")
def test_a_cluster_of_this_machine_ends_with_its_sweep(tmp_path):
    """In a process of its own, since this one may have joined another."""
    code = (
        "import points, ray, weirlab\n"
        f"table = weirlab.sweep(points.raises, {{'number': [2, 3]}}, {str(tmp_path / 'out')!r}, engine='ray', workers=1)\n"
        "assert table['square'].to_pylist() == [4, 9] and not ray.is_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_worker_killed_midway_changes_nothing(engine, tmp_path, calls):
    grid = {"number": list(range(6))}
    table = weirlab.sweep(points.dies_once, grid, tmp_path / "out", fixed={"folder": str(calls)}, engine=engine, workers=2)
    assert (calls / "died").exists()
    assert table["square"].to_pylist() == [0, 1, 4, 9, 16, 25]
    assert set(numbers_called(calls)) == set(range(6))


def test_a_point_that_kills_every_worker_is_named_and_the_others_are_kept(engine, tmp_path):
    with pytest.raises(weirlab.SweepError, match="1 of 3 points failed, the first number=1: "):
        weirlab.sweep(points.always_dies, {"number": [0, 1, 2]}, tmp_path, engine=engine, workers=2)
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_what_is_kept_is_not_done_again(engine, tmp_path, calls):
    fixed = {"folder": str(calls)}
    weirlab.sweep(points.noted, {"number": [1, 2]}, tmp_path / "out", fixed=fixed, engine=engine, workers=1)
    table = weirlab.sweep(points.noted, {"number": [1, 2, 3]}, tmp_path / "out", fixed=fixed, engine=engine, workers=1)
    assert table["square"].to_pylist() == [1, 4, 9]
    assert numbers_called(calls) == [1, 2, 3]


def begin(function, grid, tmp_path, calls, mark):
    """A sweep in a process of its own, once it has made this mark."""
    script = tmp_path / "killed.py"
    script.write_text(
        "import points, weirlab\n"
        "if __name__ == '__main__':\n"
        f"    fixed = {{'folder': {str(calls)!r}}}\n"
        f"    weirlab.sweep(points.{function}, {grid}, {str(tmp_path / 'out')!r}, fixed=fixed, workers=1)\n"
    )
    begun, until = subprocess.Popen([sys.executable, script], start_new_session=True), time.monotonic() + WAIT_S
    while not (calls / mark).exists() and time.monotonic() < until and begun.poll() is None:
        time.sleep(0.02)
    assert begun.poll() is None
    return begun


def test_a_sweep_that_was_killed_goes_on(tmp_path, calls):
    grid, out, fixed = {"number": [0, 1, 2, 3, 4]}, tmp_path / "out", {"folder": str(calls)}
    begun, until = begin("waits_once", grid, tmp_path, calls, "waits"), time.monotonic() + WAIT_S
    # The worker waits in its fourth point, and its sweep keeps the three before it at its own pace.
    while len(list(out.glob("[!.]*.json"))) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(begun.pid, signal.SIGKILL)
    begun.wait()
    assert len(list(out.glob("[!.]*.json"))) == 3
    # A kill may leave a part of a file, which is no result.
    (out / f".part-{sweeps._key(points.waits_once, {**fixed, 'number': 3})}.json").write_text('{"squ')
    table = weirlab.sweep(points.waits_once, grid, out, fixed=fixed, workers=1)
    assert table["square"].to_pylist() == [0, 1, 4, 9, 16]
    assert numbers_called(calls) == [0, 1, 2, 3, 4] and len(list(out.iterdir())) == 5


def test_workers_of_a_killed_sweep_end(tmp_path, calls):
    """The process of the sweep alone is killed: nobody tells its workers."""
    begun = begin("names_its_process", {"number": [0, 1, 2]}, tmp_path, calls, "worker")
    worker, until = int((calls / "worker").read_text()), time.monotonic() + WAIT_S
    begun.kill()
    begun.wait()
    while is_running(worker) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_running(worker)


def test_a_full_disk_is_named_and_the_sweep_goes_on(engine, tmp_path, calls):
    """What is written to the third result has no room: its part is /dev/full."""
    fixed, grid, out = {"folder": str(calls)}, {"number": [0, 1, 2, 3]}, tmp_path / "out"
    out.mkdir()
    keys = {number: sweeps._key(points.noted, {**fixed, "number": number}) for number in grid["number"]}
    (out / f".part-{keys[2]}.json").symlink_to("/dev/full")
    with pytest.raises(weirlab.SweepError, match=f"{keys[2]}.json: No space left on device: ") as raised:
        weirlab.sweep(points.noted, grid, out, fixed=fixed, engine=engine, workers=1)
    kept = [number for number, key in keys.items() if (out / f"{key}.json").exists()]
    assert f": {len(kept)} of 4 points are kept; make room and call again" in str(raised.value)
    # Ray may have tried the third first.
    assert 2 not in kept and (kept or engine == "ray") and len(list(out.iterdir())) == len(kept)
    table = weirlab.sweep(points.noted, grid, out, fixed=fixed, engine=engine, workers=1)
    assert table["square"].to_pylist() == [0, 1, 4, 9]
    assert [numbers_called(calls).count(number) for number in kept] == [1] * len(kept)


def test_a_point_that_raises_is_named_and_the_others_are_kept(engine, tmp_path):
    with pytest.raises(weirlab.SweepError, match="1 of 3 points failed, the first number=1: ValueError: one is wrong") as raised:
        weirlab.sweep(points.raises, {"number": [0, 1, 2]}, tmp_path, engine=engine, workers=1)
    assert isinstance(raised.value.__cause__, ValueError)
    assert len(list(tmp_path.glob("*.json"))) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"grid": {"number": []}}, "grid: `number` is []: give a list"),
        ({"grid": {"number": "123"}}, "grid: `number` is '123'"),
        ({"grid": {"number": [1]}, "fixed": {"number": 1}}, "fixed: `number` is in the grid"),
        ({"grid": {"number": [min]}}, "point number=<built-in function min>: .* not JSON serializable; write a name"),
        ({"grid": {"a": range(2000), "b": range(2000)}}, "4000000 points are more than 1000000"),
        ({"grid": {"number": [1]}, "engine": "spark"}, "engine: `spark`: write local or ray"),
    ],
)
def test_mistakes_are_named(tmp_path, arguments, said):
    with pytest.raises(ValueError, match=said.replace("[]", r"\[\]")):
        weirlab.sweep(points.raises, out=tmp_path, **arguments)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (points.nan, "number=1: ValueError: its result's `square` is nan, a builtins.float: return int"),
        (points.of_numpy, r"number=1: ValueError: its result's `square` is (np.int64\(1\)|1), a numpy.int64: return int\(...\)"),
        (points.of_its_parameter, "number=1: ValueError: its result has `number`, which is a parameter: give it another name"),
    ],
)
def test_a_result_that_cannot_be_kept_is_named_and_the_others_are_kept(tmp_path, function, said):
    with pytest.raises(weirlab.SweepError, match=f"1 of 3 points failed, the first {said}"):
        weirlab.sweep(function, {"number": [0, 1, 2]}, tmp_path, workers=1)
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_a_key_of_some_results_is_a_column_of_all(tmp_path):
    table = weirlab.sweep(points.more_of_two, {"number": [1, 2, 3]}, tmp_path, workers=1)
    assert table.column_names == ["number", "square", "cube"]
    assert table["cube"].to_pylist() == [None, 8, None]
    with pytest.raises(weirlab.SweepError, match="`square` is of several kinds"):
        weirlab.sweep(points.text_of_two, {"number": [1, 2]}, tmp_path, workers=1)


def test_a_kept_result_that_is_none_is_named(tmp_path):
    key = sweeps._key(points.raises, {"number": 0})
    (tmp_path / f"{key}.json").write_text("{")
    with pytest.raises(ValueError, match=f"{key}.json: no result of a point"):
        weirlab.sweep(points.raises, {"number": [0]}, tmp_path, workers=1)
