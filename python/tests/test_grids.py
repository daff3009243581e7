"""Grids of simulations from a file."""

import json

import pyarrow.parquet
import pytest

from weirlab import grids
from weirlab.__main__ import main

SMALL = """question = "which"
model = "queue"
replications = 3
[fixed]
link = "10mbit"
jobs = 2000
dist = "exponential:mean=5000"
[grid]
policy = ["ps", "srpt"]
rho = [0.5, 0.8]
"""
CLAIM = """[[claim]]
text = "srpt is faster"
value = "response_time_ms"
of = { policy = "ps", rho = 0.8 }
over = { policy = "srpt", rho = 0.8 }
least = 1.1
most = 9
"""


@pytest.fixture
def bench(tmp_path, program, monkeypatch):
    """A folder with an experiment in it; the program is the project's."""
    monkeypatch.setenv("WEIRLAB", str(program))
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path


def sweep(bench, out, *more):
    return main(["sweep", str(bench / "small.toml"), "--out", str(bench / out), "--workers", "1", *more])


def kept(bench, out):
    return {file.name: file.stat().st_mtime_ns for file in (bench / out / "runs").glob("*.json")}


NAMES = ("runs.parquet", "table.md")


def test_the_same_file_gives_the_same_bytes(bench, capsys):
    (bench / "small.toml").write_text(SMALL.replace("replications = 3", "replications = 5") + CLAIM)
    assert [sweep(bench, out) for out in ("one", "two")] == [0, 0]
    of = [[(bench / out / name).read_bytes() for name in (*NAMES, "claims.json")] for out in ("one", "two")]
    assert of[0] == of[1]
    before = kept(bench, "one")
    assert len(before) == 20 and sweep(bench, "one") == 0
    assert kept(bench, "one") == before, "nothing is done again"
    assert sweep(bench, "fewer", "--replications", "2") == 0 and sweep(bench, "fewer", "--replications", "3") == 0
    assert len(kept(bench, "fewer")) == 12, "fewer are some of the same"
    said = json.loads((bench / "one" / "sweep.json").read_text())
    assert (said["name"], said["seeds"], said["runs"], len(said["commit"]) > 6) == ("small", [1, 2, 3, 4, 5], 20, True)
    text = (bench / "one" / "table.md").read_text()
    assert text.startswith(
        "which\n\nModel queue, mean \N{PLUS-MINUS SIGN} 99 % over 5 runs.\n\n| policy | rho | response_time_ms | theory |"
    )
    assert text in capsys.readouterr().out
    assert text.splitlines()[-1].startswith("| srpt is faster | ") and ", 5 traces | reproduced |" in text
    (claim,) = json.loads((bench / "one" / "claims.json").read_text())
    assert (claim["experiment"], claim["traces"], len(claim["ends"])) == ("small", 5, 2)
    runs = pyarrow.parquet.read_table(bench / "one" / "runs.parquet")
    assert runs.column_names[:7] == ["policy", "rho", "dist", "jobs", "link", "seed", "incomplete"]
    assert runs["rho"].to_pylist()[:6] == [0.5] * 5 + [0.8] and runs["measured_jobs"].to_pylist() == [2000.0] * 20
    # 4 ms of service: twice and five times as much under processor sharing.
    theory = [line.split(" | ")[3].rstrip(" |") for line in text.splitlines() if line.startswith("| ps |")]
    assert theory == ["8.00", "20.0"]


def test_only_some_cells(bench, capsys):
    (bench / "small.toml").write_text(SMALL + CLAIM + CLAIM.replace("rho = 0.8", "rho = 0.5").replace("faster", "fast"))
    assert sweep(bench, "all") == 0 and sweep(bench, "some", "--only", "rho=0.5", "--only", "policy=srpt") == 0
    assert len(kept(bench, "some")) == 3 and not (bench / "some" / "claims.json").exists(), "no claim is about srpt alone"
    assert sweep(bench, "all", "--only", "rho=0.5") == 0 and len(kept(bench, "all")) == 12, "their runs are those of all"
    (claim,) = json.loads((bench / "all" / "claims.json").read_text())
    assert claim["text"] == "srpt is fast"
    assert pyarrow.parquet.read_table(bench / "all" / "runs.parquet")["rho"].to_pylist() == [0.5] * 6
    (bench / "small.toml").write_text(SMALL.replace("[0.5, 0.8]", "[0.5, 0.8, 0.9]") + CLAIM)
    assert sweep(bench, "of claims", "--only", "claims") == 0 and len(kept(bench, "of claims")) == 6
    assert json.loads((bench / "of claims" / "claims.json").read_text())[0]["text"] == "srpt is faster"
    capsys.readouterr()
    of_values = (("rho=0.7", "`0.7` is no value of grid.rho"), ("load=0.5", "`load` is not in [grid]; there is policy"))
    for *only, said in (*of_values, ("rho=0.5", "claims", "--only: no claim is about these cells")):
        assert sweep(bench, "none", *(word for of in only for word in ("--only", of))) == 2
        assert said in capsys.readouterr().err


def test_a_changed_file_or_trace_does_what_is_new(bench):
    assert sweep(bench, "out") == 0
    (bench / "small.toml").write_text(SMALL.replace("[0.5, 0.8]", "[0.5, 0.8, 0.9]"))
    assert sweep(bench, "out") == 0 and len(kept(bench, "out")) == 18
    of_trace = SMALL.replace('jobs = 2000\ndist = "exponential:mean=5000"', 'trace = "t.csv"')
    (bench / "small.toml").write_text(of_trace)
    for size, count in ((1000, 30), (1001, 42), (1001, 42)):
        lines = "".join(f"{at}.0,{size + at % 7},200\n" for at in range(50))
        (bench / "t.csv").write_text(f"epoch_s,size_bytes,status\n{lines}")
        assert sweep(bench, "out") == 0
        assert len(kept(bench, "out")) == count
    (bench / "other.csv").write_text("epoch_s,size_bytes,status\n" + "1.0,500,200\n2.0,600,200\n" * 9)
    assert sweep(bench, "out", "--trace", str(bench / "other.csv")) == 0 and len(kept(bench, "out")) == 54


def test_every_mistake_is_said_before_anything_runs(bench, capsys):
    (bench / "empty.csv").write_text("epoch_s,size_bytes,status\n")
    dist, jobs = "exponential:mean=5000", 'jobs = 2000\ndist = "exponential:mean=5000"'
    for old, new, said in (
        ("[0.5, 0.8]", "[0.5, 1.2]", "rho: no policy has a steady state"),
        ("[0.5, 0.8]", "[0.5, nan]", "rho: `nan` is no text, boolean or finite number"),
        ("[0.5, 0.8]", "[0.5, 0.50]", "grid.rho: `0.5` is given twice"),
        ("[0.5, 0.8]", "[]", "grid.rho: the list is empty"),
        ("[0.5, 0.8]", "0.5", "grid.rho: a value of the grid is a list"),
        ("[0.5, 0.8]", "[{ rho = 1 }]", "grid.rho: a table in the grid has a `name`"),
        ('"srpt"', '"sprt"', "policy: unknown policy `sprt`"),
        (dist, "exponential:mean=nan", "dist: mean is `nan`"),
        (jobs, 'trace = "none.csv"', "none.csv"),
        (jobs, 'trace = "empty.csv"', "empty.csv: "),
        ("jobs = 2000", "jobbs = 2000", "unknown flag --jobbs"),
        ("jobs = 2000", "rho = 0.5", "grid.rho: `rho` is set in [fixed] too"),
        ("jobs = 2000", "seed = 5", "seed: it is set at the top"),
        ("replications = 3", "replications = 10000", "replications: `10000`"),
        ("replications = 3", "replications = 0", "replications: `0` is not from 1"),
        ("replications = 3", 'replications = "3"', "replications: `3`: write a whole number"),
        ("replications = 3", "replications = 3\nseed = -1", "seed: `-1` is below 0"),
        ("[0.5, 0.8]", "[{ name = [1] }]", "grid.rho: a table in the grid has a `name`"),
        ("[fixed]", "[[fixed]]", "write a table: [fixed]"),
        ("", "[plot]\ny = 'slowdown_mean'", "plot.y: `slowdown_mean`: write a list of names of metrics"),
        ("", "[plot]\nz = 'rho'", "plot: unknown key `z`; there is y"),
        ("", CLAIM.replace("[[claim]]", "[claim]"), "write a list of tables: [[claim]]"),
        ("", CLAIM.replace("least = 1.1", "least = '1.1'"), "the claim `srpt is faster`: least is `1.1`: write a number"),
        (
            "",
            CLAIM.replace('{ policy = "ps", rho = 0.8 }', "3"),
            "claim `srpt is faster`: of is `3`: write a table of the grid's values",
        ),
        ("replications", "replicatons", "unknown key `replicatons`"),
        ('"queue"', '"fluid"', "fluid"),
        ("", CLAIM.replace("rho = 0.8 }\nover", "rho = 0.9 }\nover"), "claim `srpt is faster`: `0.9` is no value of grid.rho"),
        ("", CLAIM.replace('policy = "ps", ', ""), "claim `srpt is faster`: it says no policy"),
        ("", CLAIM.replace("of = {", "of = { x = 1,"), "claim `srpt is faster`: `x` is not in [grid]"),
        ("", CLAIM.replace("least = 1.1\nmost = 9", ""), "`srpt is faster` claims nothing"),
    ):
        text = SMALL.replace(old, new, 1) if old else SMALL + new
        if "10000" in new:
            text, said = text.replace("[0.5, 0.8]", "[0.5, 0.6, 0.8]"), "grid: 2 policy x 3 rho x 10000"
        (bench / "small.toml").write_text(text)
        assert sweep(bench, "out") == 2, new
        error = capsys.readouterr().err
        assert error.startswith("weirlab: ") and "small.toml: " in error and said in error, (new, error)
        assert len(error.splitlines()) == 1, error
        assert not (bench / "out").exists(), "nothing is made"
    (bench / "small.toml").write_text('question = "x"\n[[run]]\nname = "a"\n')
    assert sweep(bench, "out") == 2
    assert "it has [[run]] and no [grid]: that is an experiment for weirlab run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[plot]\ny = ["respnse_time_ms"]\n', "plot.y: it has no `respnse_time_ms`, only incomplete, "),
        (CLAIM.replace("response_time_ms", "respnse_time_ms"), "claim `srpt is faster`: it has no `respnse_time_ms`, only "),
    ],
)
def test_a_metric_that_is_none_is_said_after_a_run_of_each_cell(bench, capsys, more, said):
    (bench / "small.toml").write_text(SMALL + more)
    assert sweep(bench, "out") == 2
    assert said in capsys.readouterr().err and len(kept(bench, "out")) == 4


def test_fields_are_flags():
    fields = {"users": 70, "set": "internet.loss=0.02", "disk.position_us": 3000, "class": ["A:15", "B:5"], "clients": False}
    fields |= {"trace": "../t.csv", "dist": "trace:t.gz", "pages": True}
    assert grids.flags("server", fields, "/e", None) == {
        "model": "server", "users": "70", "set": "internet.loss=0.02,disk.position_us=3000", "class": ["A:15", "B:5"],
        "trace": "/e/../t.csv", "dist": "trace:/e/t.gz", "pages": True,
    }  # fmt: skip
    assert grids.flags("queue", {"policy": "classes", "class_table": "c.toml"}, "/e", None) == {
        "model": "queue",
        "class_table": "/e/c.toml",
    }
    assert grids.flags("queue", {"trace": "t.csv"}, "/e", "/other.csv")["trace"] == "/other.csv"


def test_cells_are_every_combination_in_order(tmp_path):
    file = tmp_path / "a.toml"
    wan = '[{ name = "near", rtt = "50ms" }, { name = 1.5, internet.loss = 0.03 }]'
    file.write_text(f'question = "q"\nmodel = "queue"\n[fixed]\nx.y = 1\n[grid]\nwan = {wan}\nrho = [0.5, 1.0]\n')
    plan = grids.read(file)
    assert [cell.labels for cell in plan.cells] == [["near", "0.5"], ["near", "1.0"], ["1.5", "0.5"], ["1.5", "1.0"]]
    assert plan.cells[2].fields == {"x.y": 1, "internet.loss": 0.03, "rho": 0.5}
    assert (plan.seeds, plan.y) == (list(range(1, 11)), ["response_time_ms", "slowdown_mean"])


def test_numbers_go_by_where_they_stand():
    said = {
        "jobs": 3, "response_time_ms": {"mean": 2.5, "ci99": [1, 4], "p50": None}, "by_size": [{"jobs": 1}],
        "by_class": [{"class": 2, "slowdown_mean": 7.0}], "policy": "srpt", "is": True,
    }  # fmt: skip
    assert dict(grids._numbers("", said)) == {"class2_slowdown_mean": 7.0, "jobs": 3.0, "response_time_ms_mean": 2.5}


def test_names_of_columns():
    assert grids._distinct(["jobs", "seed", "jobs", "jobs"]) == ["jobs", "seed", "measured_jobs", "measured_measured_jobs"]


def test_every_grid_we_ship_can_be_read(root):
    files = [file for file in (root / "experiments").glob("*/*.toml") if "[grid" in file.read_text()]
    plans = [grids.read(file) for file in files]
    assert len(plans) >= 40 and sum(len(plan.claims) for plan in plans) >= 90
