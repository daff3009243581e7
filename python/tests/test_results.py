"""What is kept and published: read, and computed again."""

import json

import polars
import pyarrow as pa
import pyarrow.parquet
import pytest
from test_report import write

import weirlab
from weirlab.__main__ import main
from weirlab.figures import figure, of_pair
from weirlab.points import points_of


def write_run(folder, name, ends_ms, outcome="complete", sizes=(100, 200, 300), groups=None):
    """A run of three requests, 1 ms apart."""
    write(folder, name, ends_ms, sizes=sizes, outcome=outcome, groups=groups, apart_ns=1_000_000, head=220)


@pytest.fixture
def experiment(tmp_path):
    for seed, fair in ((1, 4.0), (2, 8.0)):
        point = tmp_path / "runs" / f"rho-0.8_seed-{seed}"
        write_run(point, "srpt", [1, 2, 3])
        write_run(point, "fair", [fair, fair, fair], outcome="incomplete")
    return tmp_path / "runs"


def test_published_figures_are_those_of_the_responses_that_are_kept(root):
    kept = sorted(folder.parent for folder in (root / "results").glob("**/responses"))
    assert kept
    for result in kept:
        checked = weirlab.check(result)
        computed = [figure for figure in checked if figure.computed is not None]
        assert computed, result
        assert [figure for figure in computed if not figure.agrees] == [], result
        without = {figure.what for figure in checked if figure.computed is None and figure.what.startswith("over-")}
        assert without == set(), result


def test_claims_of_figure_3_are_computed_to_the_bit_of_a_microsecond(root):
    result = root / "results" / "2026-11-28-vm14-000/000-fig3-rho-0.8"
    checked = weirlab.check(result)
    assert [figure.what for figure in checked if figure.computed is None] == []
    of_claims = [figure for figure in checked if figure.what.startswith("claims.json") and figure.computed is not None]
    assert len(of_claims) == 51
    assert max(abs(figure.computed / figure.published - 1) for figure in of_claims) < 3e-5
    found = weirlab.judge(weirlab.runs(result), weirlab.claims(root / "experiments" / "000" / "000-fig3.toml"))
    mean = next(of for of in found if of.claim.text == "mean 3-8 x lower, by bands")
    assert (mean.verdict, mean.point, mean.traces) == ("refuted", "rho-0.8", 10)


def test_runs_of_an_experiment(experiment):
    found = weirlab.runs(experiment)
    assert [(run.point, run.group, run.name) for run in found[:2]] == [
        ("rho-0.8_seed-1", "rho-0.8", "fair"),
        ("rho-0.8_seed-1", "rho-0.8", "srpt"),
    ]
    assert len(found) == 4
    assert found[0].responses().ms.tolist() == [4, 4, 4]
    assert found[0].responses().is_complete.tolist() == [False, True, True]
    assert polars.from_arrow(found[1].records())["size_bytes"].to_list() == [100, 200, 300]
    assert [(run.point, run.name) for run in weirlab.runs(experiment / "rho-0.8_seed-1")] == [("", "fair"), ("", "srpt")]
    assert [run.name for run in weirlab.runs(experiment / "rho-0.8_seed-1" / "fair")] == ["fair"]


def test_responses_are_kept_and_read_again(experiment, tmp_path, capsys):
    result = tmp_path / "result"
    assert main(["keep", str(experiment), str(result)]) == 0
    assert capsys.readouterr().out.count("\n") == 2
    first = (result / "responses" / "rho-0.8_seed-1.parquet").read_bytes()
    weirlab.keep(experiment, result)
    assert (result / "responses" / "rho-0.8_seed-1.parquet").read_bytes() == first
    kept, made = weirlab.runs(result), weirlab.runs(experiment)
    assert [(run.point, run.name) for run in kept] == [(run.point, run.name) for run in made]
    for one, other in zip(kept, made, strict=True):
        one, other = one.responses(), other.responses()
        assert (one.ms == other.ms).all() and (one.is_complete == other.is_complete).all()
        assert (one.head_bytes == other.head_bytes).all()
    frame = polars.read_parquet(result / "responses" / "rho-0.8_seed-1.parquet")
    assert frame["fair_us"].to_list() == [-4000, 4000, 4000]
    with pytest.raises(ValueError, match="response times alone"):
        kept[0].records()


def test_ends_that_are_nanoseconds_apart_are_no_different(tmp_path):
    write_run(tmp_path / "runs" / "p_seed-1", "a", [1, 2, 3])
    write_run(tmp_path / "runs" / "p_seed-1", "b", [1.0004, 2.0004, 3])
    one, other = (run.responses() for run in weirlab.runs(tmp_path / "runs"))
    assert of_pair("share_starved", other, one) == 0
    assert of_pair("share_gaining", one, other) == 0


def test_runs_with_other_requests_are_kept_apart_with_their_clients(tmp_path):
    of_point = tmp_path / "runs" / "p_seed-1"
    write_run(of_point, "a", [1, 2, 3], groups=(0, 1, 1))
    write_run(of_point, "b", [4, 5, 6], sizes=(1, 2, 3), groups=(1, 0, 1))
    written = weirlab.keep(tmp_path / "runs", tmp_path / "result")
    responses = tmp_path / "result" / "responses"
    assert written == [responses / "a" / "p_seed-1.parquet", responses / "b" / "p_seed-1.parquet"]
    kept = weirlab.runs(tmp_path / "result")
    assert [(run.point, run.name, run.responses().ms.tolist()) for run in kept] == [
        ("p_seed-1", "a", [1, 2, 3]),
        ("p_seed-1", "b", [4, 5, 6]),
    ]
    assert [run.responses().group.tolist() for run in kept] == [[0, 1, 1], [1, 0, 1]]
    rows = {row["run"]: row for row in weirlab.over(kept, "a")}
    assert rows["b"]["factor"].value == pytest.approx(2.5)


def test_runs_over_another_are_paired(experiment):
    rows = {row["run"]: row for row in weirlab.over(weirlab.runs(experiment), "srpt")}
    assert rows["fair"]["mean_ms"].value == 6
    assert rows["fair"]["factor"].value == pytest.approx((2 * 4) ** 0.5)
    assert rows["fair"]["factor_top"].value == pytest.approx((4 / 3 * 8 / 3) ** 0.5)
    assert rows["srpt"]["factor"] is None


def test_a_picture_of_runs(experiment, tmp_path):
    point = experiment / "rho-0.8_seed-1"
    manifest = point / "fair" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "void": "busy"}))
    figure = weirlab.plots.by_size(weirlab.runs(point), "a & <b>")
    lines = {line.get_label(): line.get_xydata().tolist() for line in figure.axes[0].lines}
    names = ["fair VOID (mean 4 ms)", "srpt (mean 2 ms)", "ideal processor sharing (mean", "clairvoyant bound (mean"]
    assert [label.startswith(name) for label, name in zip(lines, names, strict=True)] == [True] * 4
    assert lines["srpt (mean 2 ms)"] == [[100, 1], [200, 2], [300, 3]]
    figure.savefig(tmp_path / "a.svg")
    assert "a &amp; &lt;b&gt;" in (tmp_path / "a.svg").read_text()
    with pytest.raises(ValueError, match="there are no runs to draw"):
        weirlab.plots.by_size([])


def test_claims_of_runs(experiment):
    """Of the middle request, of one client, over the bound, of counters; void runs and other lengths do not count."""
    text = """
        [[figure.expect]]
        text = "{what}"
        value = "{value}"
        of = "fair"
        least = 0
        {rest}
        """
    stated = [
        ("all", "response_time_ms.mean", 'over = "srpt"'),
        ("one", "response_time_ms.mean", "sizes = [34, 67]"),
        ("bound", "response_time_ms.mean", 'over = "bound"'),
        ("slowdown", "slowdown_mean", 'over = "srpt"'),
        ("b", "response_time_ms.mean", 'client = "b"'),
        ("nobody", "response_time_ms.mean", 'client = "c"'),
        ("drops", "syn_drops", ""),
        ("cpu", "server_cpu", "seconds = 420"),
        ("absent", "first_byte_ms.mean", ""),
        ("elsewhere", "bytes", 'point = "rho-0.9"'),
    ]
    toml = experiment.parent / "a.toml"
    toml.write_text("".join(text.format(what=what, value=value, rest=rest) for what, value, rest in stated))
    for run in weirlab.runs(experiment):
        table = run.records()
        pa.parquet.write_table(table.append_column("group", pa.array([0, 1, 0])), run.path / "records.parquet")
        manifest = {**run.manifest, "clients": ["a", "b"], "server_cpu": 0.25, "seconds": 60}
        (run.path / "manifest.json").write_text(json.dumps(manifest))
        pa.parquet.write_table(pa.table({"at_ns": [1, 2], "listen_drops_total": [3, 5]}), run.path / "samples.parquet")
    found = {of.claim.text: of for of in weirlab.judge(weirlab.runs(experiment), weirlab.claims(toml))}
    assert set(found) == {"all", "one", "bound", "slowdown", "b", "drops", "cpu"}
    stated_all = weirlab.findings(points_of(weirlab.runs(experiment)), weirlab.claims(toml))
    absent = {of.claim.text: (of.verdict, of.remark) for of in stated_all if of.estimate is None}
    assert absent == {
        "nobody": ("not measured", "c: these responses were not kept with their clients"),
        "absent": ("not measured", "first_byte_ms: these responses were not kept with it"),
        "elsewhere": ("not measured", "no run of this point is here"),
    }
    assert found["all"].estimate.value == pytest.approx((2 * 4) ** 0.5)
    assert found["one"].estimate.value == found["b"].estimate.value == 6
    # 386, 486 and 586 bytes on the link, 1 ms apart: 309, 389 and 469 us.
    assert found["bound"].estimate.value == pytest.approx((4 * 8) ** 0.5 / 0.389)
    assert found["slowdown"].estimate.value > found["all"].estimate.value
    assert (found["drops"].estimate.value, found["cpu"].estimate.value) == (2, 0.25)
    assert [found[text].verdict for text in ("all", "cpu")] == ["not comparable", "not comparable"]
    void = experiment / "rho-0.8_seed-1" / "fair" / "manifest.json"
    void.write_text(json.dumps({**json.loads(void.read_text()), "void": "busy"}))
    found = {of.claim.text: of for of in weirlab.judge(weirlab.runs(experiment), weirlab.claims(toml))}
    assert (found["all"].traces, found["all"].estimate.value) == (1, 4)


def test_claims_about_two_points_are_paired_by_seed(tmp_path):
    for seed in (1, 2, 3, 4, 5, 6):
        for name, times in (("near", 1), ("far", 1.1)):
            if (name, seed) != ("near", 3):
                ends = [times * seed * ms for ms in (1, 2, 3)]
                write_run(tmp_path / "runs" / f"{name}_seed-{seed}", "srpt", ends, sizes=(seed, 200, 300))
    claim = """
        [[figure.expect]]
        text = "far as near"
        point = "far"
        against = "near"
        value = "response_time_ms.mean"
        of = "srpt"
        least = 1.05
        most = 1.2
        """
    (tmp_path / "a.toml").write_text(claim)
    (found,) = weirlab.judge(weirlab.runs(tmp_path / "runs"), weirlab.claims(tmp_path / "a.toml"))
    assert (found.point, found.traces, found.verdict) == ("far", 5, "reproduced")
    assert found.estimate.value == pytest.approx(1.1, 1e-6)


def test_means_over_each_second_are_kept(tmp_path):
    """Three requests 1 ms apart and one after 3 s, whose means over their seconds are 2 and 8 ms."""
    of_point = tmp_path / "runs" / "p_seed-1"
    write_run(of_point, "a", [1, 2, 3, 8], sizes=(1, 2, 3, 4))
    table = weirlab.records(of_point / "a").to_pydict()
    table["arrival_ns"][3], table["end_ns"][3] = 3_000_000_000, 3_008_000_000
    pa.parquet.write_table(pa.table(table), of_point / "a" / "records.parquet")
    weirlab.keep(tmp_path / "runs", tmp_path / "result")
    for of in (tmp_path / "runs", tmp_path / "result"):
        (run,) = weirlab.runs(of)
        found = [figure(f"second_means_ms.{stat}", run.responses()) for stat in ("max", "mean", "p50")]
        assert found == [8, 5, 2]


def test_a_figure_that_does_not_agree_is_named(experiment, tmp_path, capsys):
    result = tmp_path / "project" / "results" / "one"
    weirlab.keep(experiment, result)
    row = {"group": "rho-0.8", "run": "fair", "mean_ms": {"value": 6.01, "low": None}, "factor": None}
    (result / "over-srpt.json").write_text(json.dumps({"over": "srpt", "rows": [row]}))
    assert main(["check", str(result)]) == 1
    said = capsys.readouterr().out
    assert "over-srpt.json: rho-0.8 fair mean_ms value: published 6.01, computed 6.0" in said
    assert "1 figures computed, 1 of them wrong, 0 not given" in said


def test_an_experiment_that_varies_nothing_but_the_seed(experiment, tmp_path):
    """The report calls its group by the experiment; its claims name no point."""
    project = tmp_path / "project"
    (project / "experiments" / "003").mkdir(parents=True)
    claim = "[[figure.expect]]\ntext = 'm'\nvalue = 'response_time_ms.mean'\nof = 'fair'\nleast = 0\n"
    (project / "experiments" / "003" / "003-x.toml").write_text(claim)
    for folder in list(experiment.iterdir()):
        folder.rename(folder.with_name(folder.name.removeprefix("rho-0.8_")))
    for runs, value in ((experiment, 6.0), (experiment / "seed-1", 4.0)):
        kept = project / "results" / "group" / runs.name
        weirlab.keep(runs, kept)
        row = {"group": "003-x", "run": "fair", "mean_ms": {"value": value}, "factor": None}
        (kept / "over-srpt.json").write_text(json.dumps({"over": "srpt", "rows": [row]}))
        (kept / "claims.json").write_text(json.dumps([{"experiment": "003-x", "text": "m", "value": value, "traces": 1}]))
        assert [figure.agrees for figure in weirlab.check(kept)] == [True, True]
    (kept / "claims.json").write_text(json.dumps([{"experiment": "003-y", "text": "m", "value": 1.0}]))
    with pytest.raises(FileNotFoundError, match=r"there is no 003-y\.toml, whose claims are published"):
        weirlab.check(kept)


def test_mistakes_are_named(tmp_path, experiment, capsys):
    with pytest.raises(FileNotFoundError, match="absent: no folder is here"):
        weirlab.runs(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match=r"no records.parquet: no run is here"):
        weirlab.records(tmp_path)
    with pytest.raises(ValueError, match="no finished run is here"):
        (tmp_path / "empty").mkdir()
        weirlab.keep(tmp_path / "empty", tmp_path / "result")
    with pytest.raises(FileNotFoundError, match="no responses are kept here"):
        weirlab.check(experiment)
    cut = experiment / "rho-0.8_seed-1" / "fair" / "records.parquet"
    cut.write_bytes(cut.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"fair/records.parquet: "):
        weirlab.records(cut.parent)
    (cut.parent / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match=r"fair/manifest.json: "):
        weirlab.runs(experiment)
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[[figure.expect]]\ntext = 'a'\nvalue = 'bytes'\nof = 'x'\nsense = 1\n")
    with pytest.raises(ValueError, match=r"wrong.toml: .*'sense'"):
        weirlab.claims(wrong)
    assert main(["weep"]) == 2
    assert "choose from 'report', 'sweep', 'items'" in capsys.readouterr().err


def test_an_access_log_is_a_run(tmp_path):
    line = {
        "start_time": "2026-11-21T10:00:00.000000001Z", "remote_addr": "198.18.0.7", "method": "GET", "uri": "/",
        "protocol": "HTTP/1.1", "status": 200, "content_length": 1000, "head_bytes": 200, "body_bytes": 1000,
        "first_byte_ms": None, "duration_ms": 5.0, "connection_reused": False, "class": "a", "outcome": "complete",
    }  # fmt: skip
    log = tmp_path / "access.json"
    log.write_text(json.dumps(line) + "\n" + json.dumps({**line, "outcome": "reset"}) + "\n")
    table = weirlab.records(log)
    assert table["outcome"].to_pylist() == ["complete", "reset"]
    assert table["end_ns"].to_pylist() == [5_000_000, 5_000_000]
    assert table["first_byte_ns"].null_count == 2
    assert json.loads(table.schema.metadata[b"classes"]) == ["a"]
    log.write_text(log.read_text() + "{}\n")
    with pytest.raises(ValueError, match="access.json:3: missing field"):
        weirlab.records(log)
