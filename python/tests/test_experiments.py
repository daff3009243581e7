"""The program `weirlab` from Python."""

import json
import subprocess

import pyarrow as pa
import pyarrow.parquet
import pytest

import weirlab
from weirlab import experiments

FAKE = """#!/bin/sh
at=$(dirname "$0")
echo "$@" >>"$at/asked"
while [ "$1" != --out ]; do shift; done
mkdir -p "$2/rho-0.8_seed-1/srpt"
cd "$2/rho-0.8_seed-1/srpt"
cp "$at/records.parquet" .
printf '{"name": "srpt", "link_bps": 10000000}' >manifest.json
"""


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_what_the_program_is_asked_and_what_comes_of_it(tmp_path):
    fake = script(tmp_path / "weirlab", FAKE)
    job = {"job": 0, "size_bytes": 5, "head_bytes": 220, "arrival_ns": 0, "end_ns": 4000, "outcome": "complete"}
    pa.parquet.write_table(pa.Table.from_pylist([job]), tmp_path / "records.parquet")
    found = weirlab.run("a.toml", tmp_path / "out", only=["x", "y"], points=["p"], seconds=9, seed=3, parallel=2, weirlab=fake)
    asked = (tmp_path / "asked").read_text()
    assert asked == f"run --virtual a.toml --out {tmp_path}/out --only x,y --points p --seconds 9 --seed 3 --parallel 2\n"
    assert [(run.point, run.name) for run in found] == [("rho-0.8_seed-1", "srpt")]
    assert found[0].responses().ms.tolist() == [0.004]


def test_a_failure_says_what_the_program_said_last(tmp_path):
    fake = script(tmp_path / "weirlab", "#!/bin/sh\necho first >&2\necho 'weirlab: a.toml:3: why' >&2\nexit 2\n")
    with pytest.raises(weirlab.RunError, match=r"exit status 2: weirlab: a.toml:3: why$"):
        weirlab.run("a.toml", tmp_path / "out", weirlab=fake)


def test_the_program_is_found_or_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("WEIRLAB", raising=False)
    with pytest.raises(FileNotFoundError, match="no program `weirlab` in PATH: build it, or name it by WEIRLAB"):
        experiments.program()
    in_path = script(tmp_path / "weirlab", FAKE)
    assert experiments.program() == in_path
    monkeypatch.setenv("WEIRLAB", str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match="absent: no program is here"):
        experiments.program()
    assert experiments.program(in_path) == in_path


@pytest.mark.parametrize("policy", ["srpt", "ps", "las", "srpt-bands:5"])
def test_simulate_has_the_figures_of_weirlab_sim(policy, program, root):
    trace = root / "traces" / "synthetic.csv.gz"
    command = [program, "sim", "--policy", policy, "--trace", trace, "--rho", "0.8", "--json"]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    jobs = weirlab.trace(trace)
    arrivals = weirlab.stretch(jobs["size_bytes"], jobs["arrival_ns"], 0.8)
    times = weirlab.response_ms(weirlab.simulate(jobs["size_bytes"], arrivals, policy=policy))
    published = said["response_time_ms"]
    assert said["jobs"] == len(times)
    assert (times.mean(), times.var(), times.max()) == pytest.approx((published["mean"], published["variance"], published["max"]))


def test_other_models_are_simulated_by_the_program(program, root):
    flags = {"trace": root / "traces/synthetic.csv.gz", "rho": 0.8, "jobs": 500, "set": None}
    packet = weirlab.sim(weirlab=program, model="packet", policy="srpt", **flags)
    queue = weirlab.sim(weirlab=program, policy="srpt", **flags)
    assert packet["jobs"] == queue["jobs"] == 500
    assert packet["response_time_ms"]["mean"] > queue["response_time_ms"]["mean"]
    with pytest.raises(weirlab.RunError, match="exit status 2: weirlab: .*'--rho <X>'"):
        weirlab.sim(weirlab=program, policy="srpt", dist="exponential:mean=5000", rho="x")


def test_flags_of_a_simulation(tmp_path):
    fake = script(tmp_path / "weirlab", '#!/bin/sh\necho "$@" >"$(dirname "$0")/asked"\necho {}\n')
    assert (
        weirlab.sim(weirlab=fake, policy="ps", warm_up=5, closed=["1,2", "3,4"], carriers=True, clients=None, pages=False) == {}
    )
    assert (tmp_path / "asked").read_text() == "sim --json --policy ps --warm-up 5 --closed 1,2 --closed 3,4 --carriers\n"


def test_an_experiment_in_virtual_time_has_the_figures_that_weirlab_run_prints(program, root, tmp_path):
    names = ["weir-off", "weir-paced-srpt"]
    if not program.with_name("weir").exists():
        pytest.skip("SKIPPED: no program weir next to weirlab: cargo build -p weir")
    try:
        found = weirlab.run(root / "experiments/pages/first-light.toml", tmp_path / "out", only=names, seconds=2, weirlab=program)
    except weirlab.RunError as error:
        if "setup.sh virtual" not in str(error):
            raise
        pytest.skip(f"SKIPPED: {error}")
    file, words = root / "experiments/pages/first-light.toml", ["--seconds", "2", "--only", ",".join(names), "--json"]
    again = [program, "run", "--virtual", file, "--out", tmp_path / "out", *words]
    said = subprocess.run(again, check=True, capture_output=True, text=True).stdout
    printed = {run["name"]: run for run in json.loads(said)["runs"]}
    assert [run.name for run in found] == sorted(printed) == names
    for run in found:
        assert run.responses().ms.mean() == pytest.approx(printed[run.name]["response_time_ms"]["mean"])
