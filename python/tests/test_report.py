"""Reports of experiments as files: claims with verdicts, runs over another, lines, and the page of all items."""

import dataclasses
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import weirlab
from weirlab import chapters, items, lines, repeats, texts
from weirlab.__main__ import main
from weirlab.claims import Claim
from weirlab.conditions import apart
from weirlab.intervals import Estimate
from weirlab.recorded import Run

MANIFEST = {
    "server": "weir", "policy": "srpt", "shaping": "paced", "link_bps": 10_000_000, "rho": 0.5, "seed": 1, "per_connection": 1,
    "seconds": 1.0, "commit": "unknown", "kernel": "6.18", "environment": {"wire": "netem rate 10000000"},
}  # fmt: skip


def write(
    folder,
    name,
    ms,
    seed=1,
    pages=None,
    requests=300,
    sizes=None,
    outcome="complete",
    groups=None,
    apart_ns=3_000_000,
    head=210,
    **said,
):
    """A run of requests that take so long, each or all; the first has this outcome."""
    folder.joinpath(name).mkdir(parents=True)
    sizes = 10 * (np.arange(requests) + 1) if sizes is None else np.array(sizes)
    # Each seed is another trace.
    arrivals = np.arange(len(sizes)) * apart_ns + seed
    columns = {
        "job": np.arange(len(sizes)),
        "size_bytes": sizes,
        "head_bytes": np.full(len(sizes), head),
        "arrival_ns": arrivals,
        "end_ns": arrivals + (np.asarray(ms) * 1e6).astype(int),
        "body_bytes": sizes,
        "outcome": [outcome] + ["complete"] * (len(sizes) - 1),
    }
    if groups is not None:
        columns["group"] = groups
    pa.parquet.write_table(pa.table(columns), folder / name / "records.parquet")
    (folder / name / "manifest.json").write_text(json.dumps({**MANIFEST, "name": name, "seed": seed, **said}))


CLAIMS = """\
question = "does it help?"
seconds = 1
[vary]
seed = [2, 10]
[figure]
paper = "000"
figure = "3"
claim = "3-8 x lower"
[[figure.expect]]
text = "3-8 x"
value = "response_time_ms.mean"
of = "fair"
over = "srpt"
least = 2.0
most = 8.0
larger = "more"
[[figure.expect]]
text = "late is sooner"
point = "seed-10"
value = "slowdown_mean"
of = "late"
one_sided = "at most"
most = 100.0
[[figure.expect]]
text = "nobody drops"
point = "seed-2"
value = "syn_drops"
of = "srpt"
one_sided = "none"
most = 0.0
[[run]]
name = "srpt"
[[run]]
name = "fair"
[[run]]
name = "late"
"""


@pytest.fixture
def experiment(tmp_path):
    """`fair` takes 90 ms with both seeds, `srpt` 30 and 10 ms; `late` is void."""
    out = tmp_path / "runs" / "000-fig3"
    for seed, ms in ((2, 30), (10, 10)):
        write(out / f"seed-{seed}", "fair", 90, seed, policy="fair")
        write(out / f"seed-{seed}", "srpt", ms, seed)
    write(out / "seed-10", "late", 90, 10, void="requests were <late>")
    (out / "experiment.toml").write_text(CLAIMS)
    (out / "left-out.json").write_text('{"seed-2/late": "no <cake>", "seed-2/srpt": "was made since"}')
    return out


def test_claims_stand_beside_what_was_found(experiment, tmp_path):
    page, kept = tmp_path / "page.md", tmp_path / "claims.json"
    assert main(["report", str(tmp_path / "runs"), "--md", str(page), "--claims", str(kept)]) == 0
    text = page.read_text()
    for row in (
        "# Weir: 000-fig3\n",
        "## 000, figure 3: 000-fig3\n\ndoes it help?\n\nThe paper: 3-8 x lower. **Claims: 1 undecided, 1 not measured, 1 void**",
        "| 3-8 x | 5.20 \N{MULTIPLICATION SIGN} (0.00",
        ", 2 traces | undecided: 2 traces; a verdict needs 5 |",
        "**void**: requests were <late> |",
        "not measured: syn_drops: nothing was measured from outside |",
        "| ~~late~~ |",
        "- void: late: requests were <late>",
        "- not here: late: no <cake>",
        "| srpt | weir, srpt, paced | 300 | 0 | 30 | ",
        "1 s of arrivals, seed 10, kernel 6.18, commit unknown; bound 1.46 ms, packet bound 1.52 ms.",
    ):
        assert row in text, f"`{row}` is not in\n{text}"
    assert text.index("### seed-2") < text.index("### seed-10"), "in the order of the file"
    first, void, absent = json.loads(kept.read_text())
    assert (first["experiment"], first["traces"], "point" in first) == ("000-fig3", 2, False)
    assert first["value"] == pytest.approx(math.sqrt(27)), "the geometric mean of 3 and 9"
    assert (void["not_judged"], absent["not_judged"], "value" in absent) == ("void", "not-measured", False)


def test_what_is_not_here_is_named(experiment, tmp_path):
    def not_here():
        text = chapters.markdown("t", [chapters.chapter(of) for of in weirlab.experiments_in(tmp_path / "runs")])
        return [line.removeprefix("- not here: ") for line in text.splitlines() if line.startswith("- not here: ")]

    assert not_here() == ["late: no <cake>"], "what was made since is here"
    for run in ("seed-2/fair", "seed-2/srpt", "seed-10/fair"):
        for file in (experiment / run).iterdir():
            file.unlink()
    gone = ["seed-2 / late: no <cake>", "seed-2 / srpt: was made since", "seed-2 / fair: no finished run is here"]
    assert not_here() == [*gone, "fair: no finished run is here"]
    (experiment / "left-out.json").unlink()
    assert not_here()[0] == "seed-2: no finished run is here"
    # An experiment of which this machine could run nothing has a reason and no run.
    other = tmp_path / "runs" / "other"
    other.mkdir()
    (other / "experiment.toml").write_text(CLAIMS)
    (other / "left-out.json").write_text('{"seed-2/fair": "no nginx"}')
    assert "seed-2 / fair: no nginx" in not_here()


def test_mistakes_of_reports_are_named(experiment, tmp_path, capsys):
    def said(*arguments):
        assert main(["report", *map(str, arguments)]) == 1
        return capsys.readouterr().err

    assert "absent: no folder is here" in said(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    assert "empty: no run here: neither it nor a folder in it has a manifest.json" in said(tmp_path / "empty")
    assert "there is no run `hers`; the runs are srpt, fair, late" in said(experiment, "--over", "hers")
    assert "--json and --line go with --over" in said(experiment, "--json")
    (experiment / "seed-2" / "fair" / "manifest.json").unlink()
    assert main(["report", str(experiment)]) == 0
    assert "seed-2/fair: left out, it has records but no manifest.json" in capsys.readouterr().err
    for wrong, right in (
        (('over = "srpt"', 'over = "sprt"'), "there is no run `sprt`; the runs are srpt, fair, late, and bound and ideal-ps"),
        (('point = "seed-2"', 'point = "seed-3"'), "`nobody drops` speaks of point `seed-3`; the points are , seed-10, seed-2"),
        (('value = "syn_drops"', 'value = "drops"'), "`drops` is no figure; there are response_time_ms.{p50|"),
        (("least = 2.0\nmost = 8.0\n", ""), "`3-8 x` claims nothing"),
        (("least = 2.0", "least = 9.0"), "`3-8 x` claims nothing"),
        (("least = 2.0", 'least = 2.0\none_sided = "x"'), "`3-8 x` has two sides"),
        (("least = 2.0", "least = 2.0\nsizes = [90, 10]"), "sizes = [90, 10] are no percentiles"),
        (("least = 2.0", "least = 2.0\nseconds = 0"), "`3-8 x`: seconds is how long the paper's run was"),
        (("least = 2.0", 'least = 2.0\nclient = "a"'), "there is no client `a`"),
        (("least = 2.0", 'least = 2.0\nagainst = "seed-2"'), "`3-8 x` compares two points"),
        (('larger = "more"', 'larger = "yes"'), "`3-8 x`: larger is `yes`: write more or less"),
        (('of = "late"', 'of = "late"\nmore = 1'), "a claim has no key 'more'"),
        (('value = "slowdown_mean"\n', ""), "the claim `late is sooner` has no `value`"),
        (('value = "slowdown_mean"', 'value = "share_gaining"'), "`share_gaining` compares two runs: write over"),
    ):
        (experiment / "experiment.toml").write_text(CLAIMS.replace(*wrong))
        assert f"000-fig3/experiment.toml: {right}" in said(experiment), wrong


def test_verdicts_by_hand():
    for least, most, larger, ends, verdict, remark in (
        (3.0, 8.0, "more", (3.0, 8.0), "reproduced", None),
        (3.0, 8.0, "more", (2.9, 7.0), "undecided", "the interval includes 3"),
        (3.0, 8.0, "more", (2.0, 9.0), "undecided", "the interval includes 3 and 8"),
        (3.0, 8.0, "more", (7.0, 8.1), "undecided", "the interval includes 8"),
        (3.0, None, "more", (2.9, 70.0), "undecided", "the interval includes 3"),
        (2.0, 8.0, "more", (60.8, 100.0), "larger", None),
        (2.0, 8.0, None, (60.8, 100.0), "refuted", "its direction, by more"),
        (3.0, 8.0, "more", (1.99, 2.78), "refuted", "its direction, by less"),
        (3.0, None, "more", (0.8, 1.0), "refuted", None),
        (0.2, 0.5, "less", (0.6, 0.8), "refuted", "its direction, by less"),
        (0.2, 0.5, "less", (0.09, 0.11), "larger", None),
        (0.2, 0.5, None, (0.09, 0.11), "refuted", "its direction, by more"),
        (0.9, 1.1, None, (1.2, 1.4), "refuted", None),
        (None, 0.02, None, (0.02, 0.02), "reproduced", None),
    ):
        one_sided = "at least" if least is None or most is None else None
        claim = Claim("c", "response_time_ms.mean", "a", "b", least=least, most=most, larger=larger, one_sided=one_sided)
        found = Estimate(math.sqrt(ends[0] * ends[1]), *ends)
        assert claim.judged(found, 10) == (verdict, remark), (least, most, ends)
        assert claim.judged(found, 4) == ("undecided", "4 traces; a verdict needs 5"), "too few traces decide nothing"
    assert dataclasses.replace(claim, one_sided=None).verdict(found, 10) == "not comparable", "80.8 would be at least 2"
    never = Claim("none", "syn_drops", "a", least=0, most=0)
    assert [never.verdict(of, 10) for of in (Estimate(0, 0, 0), Estimate(30, -38, 98))] == ["reproduced", "refuted"]


def test_the_same_requests_six_times_are_one_trace(tmp_path):
    for at in range(6):
        for name, ms in (("fair", 90), ("srpt", 30)):
            write(tmp_path / "same" / f"seed-{at}", name, ms, 1)
            write(tmp_path / "other" / f"seed-{at}", name, ms, at)
    claim = Claim("c", "response_time_ms.mean", "fair", "srpt", least=2.0, most=4.0)
    (same,), (other,) = (weirlab.judge(weirlab.runs(tmp_path / of), [claim]) for of in ("same", "other"))
    assert (same.traces, same.verdict, same.estimate.low) == (1, "undecided", None)
    assert (other.traces, other.verdict, other.estimate.value) == (6, "reproduced", pytest.approx(3))
    assert repeats.factors(weirlab.experiments_in(tmp_path / "other"), "srpt")["rows"][0]["loads"] == 6
    for name in ("fair", "srpt"):
        manifest = tmp_path / "other" / "seed-3" / name / "manifest.json"
        manifest.write_text(json.dumps({**MANIFEST, "name": name, "seconds": 1 if name == "fair" else 100}))
    (other,) = weirlab.judge(weirlab.runs(tmp_path / "other"), [claim])
    assert (other.traces, other.verdict) == (5, "reproduced")
    assert other.remark == "1 of 6 seeds not comparable (fair ran for 1 s, srpt for 100)"


def test_runs_of_other_requests_do_not_stand_beside_each_other(experiment, tmp_path, capsys):
    write(experiment / "seed-2", "late", 90, 2, requests=299)
    assert main(["report", str(experiment), "--md", str(tmp_path / "a.md")]) == 0
    assert "000-fig3/seed-2: left out, runs srpt, fair, late: they had different requests" in capsys.readouterr().err
    assert "### seed-2" not in (tmp_path / "a.md").read_text()


def test_runs_of_clients_who_wait_have_requests_of_their_own(experiment, tmp_path):
    write(experiment / "seed-2", "late", 45, 2, requests=500, closed=15)
    assert main(["report", str(experiment), "--md", str(tmp_path / "a.md")]) == 0
    text = (tmp_path / "a.md").read_text()
    assert "| late | weir, srpt, paced | 500 | 0 | 45 | " in text[text.index("### seed-2") : text.index("### seed-10")]


@pytest.fixture
def repeated(tmp_path):
    """`ours` takes a third of the time of `theirs` at 0.5, and twice as much at 0.8."""
    out = tmp_path / "e"
    for seed in (1, 2, 3):
        for rho, ours, theirs in ((0.5, 10 * seed, 30 * seed), (0.8, 20 * seed, 10 * seed)):
            write(out / f"rho-{rho}_seed-{seed}", "ours", ours, seed, rho=rho)
            write(out / f"rho-{rho}_seed-{seed}", "theirs", theirs, seed, rho=rho)
    (out / "experiment.toml").write_text('question = "q"\n[vary]\nrho = [0.5, 0.8]\nseed = [1, 2, 3]\n')
    return out


def cells_of(page):
    """The cells of a page's table, below its heading."""
    return [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]


def test_losses_stand_first_and_seeds_are_one_group(repeated, tmp_path, capsys):
    assert main(["report", str(repeated), "--over", "ours", "--md", str(tmp_path / "over.md")]) == 0
    page = (tmp_path / "over.md").read_text()
    rows = cells_of(page)
    assert rows[0][:4] == ["**rho-0.8**", "**theirs**", "**3**", "**20.0 \N{PLUS-MINUS SIGN} 24.8**"], page
    assert rows[0][5:] == ["**0.500 0.500-0.500**", "**0.500 0.500-0.500**", "**mean, top**"]
    assert rows[1][:3] == ["rho-0.5", "theirs", "3"] and rows[1][5:] == ["3.00 3.00-3.00", "3.00 3.00-3.00", "-"]
    assert rows[2][:2] == ["rho-0.5", "ours"] and page.startswith("# Weir: every run over ours\n")
    assert main(["report", str(repeated), "--over", "ours"]) == 0
    assert capsys.readouterr().out == page
    assert main(["report", str(repeated), "--over", "ours", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    row = said["rows"][0]
    assert (said["over"], row["group"], row["standing"], row["pairs"], row["left_out"]) == ("ours", "rho-0.8", "loses", 3, [])
    assert row["factor"]["high"] == pytest.approx(0.5)


def test_what_a_kernel_gave_up_is_said_beside_the_mean_of_the_rest(tmp_path, capsys):
    """Of 300 requests of 10 ms three hang for 5 s, by the server's kernel; another run lost one by its user."""
    environment = MANIFEST["environment"]
    for name, count in (("hung", "3"), ("left", "0")):
        write(tmp_path / "e", name, 10, environment={**environment, "given_up_by_kernel": count})
        table = weirlab.records(tmp_path / "e" / name).to_pydict()
        for at in range(3):
            table["end_ns"][at], table["outcome"][at] = table["arrival_ns"][at] + 5_000_000_000, "timed_out"
        pa.parquet.write_table(pa.table(table), tmp_path / "e" / name / "records.parquet")
    said = "hung: the server's kernel gave up 3 connections (1 % of the requests), whose clients waited until the run ended; "
    said += "the mean of what completed is 10 ms"
    assert main(["report", str(tmp_path / "e")]) == 0
    page = capsys.readouterr().out
    assert f"- lost: {said}\n" in page and "| hung | weir, srpt, paced | 297 | 3 timed out | 59.9 |" in page
    assert main(["report", str(tmp_path / "e"), "--over", "left"]) == 0
    page = capsys.readouterr().out
    assert f"- e / {said}\n" in page and page.count("gave up") == 1


def test_folders_of_one_experiment_are_one_group(tmp_path, capsys):
    """Made with `--seed N`, each in a folder of its own; of one seed a run is void."""
    folders = [tmp_path / f"e-{seed}" for seed in (4, 5, 6)]
    for seed, folder in zip((4, 5, 6), folders, strict=True):
        write(folder, "ours", 10, seed)
        write(folder, "theirs", 20, seed, **({"void": "it rained"} if seed == 5 else {}))
        (folder / "experiment.toml").write_text(f"seconds = 1\nseed = {seed}\n")
    of = repeats.factors(weirlab.experiments_in(*folders), "ours")
    assert (of["rows"][0]["group"], of["rows"][0]["used"], of["rows"][0]["seeds"]) == ("e-4 (+2)", 2, 3)
    assert "e-4 (+2) / theirs: 1 of 3 seeds void (5): it rained" in repeats.markdown(of, "t")
    assert main(["report", str(folders[0]), str(folders[0]), "--over", "ours"]) == 1
    assert "run `ours` of seed 4 is there twice" in capsys.readouterr().err
    (one,) = weirlab.experiments_in(folders[0] / "ours")
    assert (one.name, [run.name for run in one.runs]) == ("e-4", ["ours"])


def test_losses_of_the_mean_come_before_those_of_the_largest():
    row = {"run": "a", "factor": Estimate(1.0)}
    of = {name: {**row, "standing": mean, "standing_top": top} for name, mean, top in (
        ("gains", "gains", "gains"), ("itself", None, None), ("unfair", "gains", "loses"), ("open", "open", "gains"),
        ("slow", "loses", "loses"),
    )}  # fmt: skip
    of["itself"]["run"] = "ours"
    assert sorted(of, key=lambda name: repeats._order(of[name], "ours", 0)) == ["slow", "open", "unfair", "gains", "itself"]


def test_groups_are_called_by_what_tells_them_apart(tmp_path):
    for name, rho, link in (("a", 0.5, 10_000_000), ("b", 0.8, 10_000_000), ("c", 0.8, 20_000_000)):
        write(tmp_path / name, "ours", 10, rho=rho, link_bps=link)
        (tmp_path / name / "experiment.toml").write_text("seconds = 1\n")
    rows = repeats.factors(weirlab.experiments_in(tmp_path), "ours")["rows"]
    assert [row["group"] for row in rows] == ["rho-0.5 10mbit", "rho-0.8 10mbit", "rho-0.8 20mbit"]


@pytest.mark.parametrize("with_fonts", [False, True])
def test_pages_have_their_own_tables(tmp_path, with_fonts):
    for seed in (1, 2):
        for name, times in (("ours", 1), ("theirs", 2)):
            views = (1, 3, 2)
            ns = [times * ms * 10**6 for ms in views]
            pages = [{"arrival_ns": 7, "first_view_ns": 7 + view, "full_ns": 7 + 2 * view, "bytes": 1000} for view in ns]
            if with_fonts:
                pages = [page | {"with_fonts_ns": 7 + view, "left": view == ns[0]} for page, view in zip(pages, ns, strict=True)]
            write(tmp_path / "e" / f"seed-{seed}", name, 5, seed)
            (tmp_path / "e" / f"seed-{seed}" / name / "pages.json").write_text(json.dumps(pages))
    of = repeats.factors(weirlab.experiments_in(tmp_path / "e"), "ours")
    figures = {page["measure"]: (page["value"].value, page["factor"] and page["factor"].value) for page in of["rows"][0]["pages"]}
    assert figures["view mean"] == (4, pytest.approx(2)) and figures["view p95"] == (6, pytest.approx(2))
    assert figures["whole p50"] == (8, pytest.approx(2)) and figures["KB mean"] == (1, 1)
    page = repeats.markdown(of, "t")
    assert "| first view, ms (factor) |" in page and "| 4.00 (2.00 2.00-2.00) |" in page
    assert figures.get("fonts mean") == ((4, pytest.approx(2)) if with_fonts else None)
    assert figures.get("left %") == ((pytest.approx(100 / 3), None) if with_fonts else None)
    assert ("with fonts" in page, "who left" in page) == (with_fonts, with_fonts)


def test_a_job_sooner_than_its_own_bytes_is_found(tmp_path):
    """1,000 and 200 bytes take 1,266 us at a byte a microsecond."""
    for name, ns in (("fine", 1_264_999), ("early", 1_264_998)):
        write(tmp_path / "e", name, 5, requests=2, link_bps=8_000_000, environment={})
        records = weirlab.records(tmp_path / "e" / name).to_pydict()
        records["size_bytes"] = records["body_bytes"] = [1000, 1000]
        records["head_bytes"], records["end_ns"][1] = [200, 200], records["arrival_ns"][1] + ns
        pa.parquet.write_table(pa.table(records), tmp_path / "e" / name / "records.parquet")
    rows = {row["run"]: row for row in repeats.factors(weirlab.experiments_in(tmp_path / "e"), "fine")["rows"]}
    assert (rows["fine"]["used"], rows["early"]["used"]) == (1, 0)
    (left_out,) = rows["early"]["left_out"]
    assert left_out["what"] == "beat their wire time"
    assert left_out["reason"].startswith("1 of 2 jobs beat their own wire time: the link does not serialise")


def test_rows_of_other_length_or_physics_are_apart(tmp_path):
    def run(name, seconds=2, **environment):
        return Run("", name, tmp_path, {"seconds": seconds, "environment": environment})

    assert apart(run("a"), run("b", qdisc="cake", bottleneck="cake")) is None, "the question itself"
    assert apart(run("a"), run("b", 1800)) == "a ran for 2 s, b for 1800"
    assert apart(run("a"), run("b", 2.02)) is None
    assert apart(run("a"), run("b", wire="netem")) == "link: a token bucket (a), a wire (b)"
    assert apart(run("a"), run("b", clock="virtual")) == "clock: real (a), virtual (b)"
    assert apart(run("a"), run("b", gso_max_segs="1")) == "largest packets: as the kernel has them (a), 1 (b)"
    assert apart(run("a", wire="netem rate 1"), run("b", wire="netem rate 2")) is None, "both serialise"


def test_a_shorter_run_is_judged_where_more_was_dropped_than_the_longer_may_have(tmp_path):
    claim = Claim("none", "syn_drops", "a", least=0, most=0, seconds=1800)

    def found(drops):
        for seed, count in enumerate(drops, 1):
            out = tmp_path / f"{drops}" / f"seed-{seed}"
            write(out, "a", 1, seed, seconds=600)
            samples = pa.table({"at_ns": [0, 1], "listen_drops_total": [3, 3 + count]})
            pa.parquet.write_table(samples, out / "a" / "samples.parquet")
        (of,) = weirlab.judge(weirlab.runs(tmp_path / f"{drops}"), [claim])
        return of.traces, of.verdict

    assert found([9, 8, 9, 7, 9]) == (5, "refuted")
    assert found([9, 8, 9, 7, 0]) == (4, "undecided"), "the fifth says nothing of 1,800 s"
    assert found([0, 0, 0, 0, 0]) == (1, "not comparable")


def test_lines_are_compared_over_seeds(repeated, capsys):
    of_run = repeated / "rho-0.5_seed-1" / "ours"
    (of_run / "uplink.csv").write_text('at_s,text\n0.5,uplink: looking\n0.7,"uplink: found 9.7 Mbit/s, ""x"""\n')
    (of_run / "line.csv").write_text("at_s,rate_bps\n0,8000000\n0.5,4000000\n")
    sent = pa.table({"at_ns": [0, 1_000_000_000], "link_sent_bytes_total": [1000, 501_000]})
    pa.parquet.write_table(sent, of_run / "samples.parquet")
    assert main(["report", str(repeated), "--over", "ours", "--line"]) == 0
    page = capsys.readouterr().out
    rows = {tuple(cells[:2]): cells[2:] for cells in cells_of(page.partition("| group | run | small p50")[2])}
    assert rows["rho-0.5", "ours"] == ["20.0", "20.0", "0.667 (1/3)", "-", "0.700 (1/3)"], page
    assert rows["rho-0.5", "theirs"] == ["60.0 (3.00 3.00-3.00)", "60.0 (3.00 3.00-3.00)", "-", "-", "-"]
    (of_run / "line.csv").write_text("at_s,rate_bps\n0,fast\n")
    with pytest.raises(ValueError, match=r"line.csv: `fast` is no number"):
        repeats.factors(weirlab.experiments_in(repeated), "ours", with_line=True)


def test_a_rate_is_found_in_words():
    assert lines.rate_in("uplink: found 9.7mbit, pacing at 98 %") == 9_700_000
    assert lines.rate_in("uplink 4.02 Mbit/s, before 9.42 Mbit/s: pacing by it") == 4_020_000
    assert lines.rate_in("uplink 9.42 Mbit/s: others fill the line, pacing is left as it is for 4 s") == 9_420_000
    lowered = "uplink: 4.0 % of the bytes lost at 9.800 Mbit/s: pace lowered to 9.267 Mbit/s"
    assert lines.rate_in(lowered) == 9_267_000
    assert lines.rate_in("uplink: 5 seconds without a queue") is None


def test_figures_of_tables():
    values = (0.0, 5.0, 0.0123, 9.876, 98.76, 987.6, 1e7, 12345678.0, 0.00012345)
    assert [texts.short(value) for value in values] == ["0", "5", "0.012", "9.88", "98.8", "988", "1e7", "1.23e7", "1.23e-4"]
    assert [texts.figure(value) for value in values[:4]] == ["0.000", "5.00", "0.012", "9.88"]


def test_the_tables_of_items_are_those_that_are_generated(root):
    for path, text in items.read(root).pages(root).items():
        assert text == path.read_text(), "run python -m weirlab items"


def test_every_claim_of_a_paper_names_its_item(root):
    papers = items.read(root)
    assert len(papers.items) == 117
    for of in papers.claims:
        is_ours = of.claim.text.endswith("(ours)") or (of.claim.one_sided or "").startswith("ours")
        assert is_ours == (not of.claim.items), of
        assert all(of.experiment.startswith(papers.items[item - 1]["paper"]) for item in of.claim.items), of


def test_the_claims_we_ship_speak_of_what_is_there(root):
    """Every claim names runs, clients and points that its experiment has, set-ups included."""
    files = [file for file in (root / "experiments").glob("*/*.toml") if file.parent.name != "setups"]
    stated = {file: weirlab.claims(file) for file in files}
    assert sum(map(bool, stated.values())) >= 40 and sum(map(len, stated.values())) >= 300


def kept(point, ends, traces, **said):
    row = {"experiment": "000-x", "text": "3 to 8", "point": point, "value": math.sqrt(ends[0] * ends[1]), "ends": list(ends)}
    return {**row, "traces": traces, **said}, "2030-r"


def papers(rows, **item):
    claim = Claim("3 to 8", "response_time_ms.mean", "a", "b", least=3.0, most=8.0, larger="more", items=(1,))
    of = {"number": 1, "paper": "000", "what": "w", **item}
    return items.Papers([of], [items.Declared("000-x", claim)], {("000-x", "3 to 8"): rows} if rows else {})


def test_an_item_is_what_its_claims_are_at_every_point():
    def state(*rows):
        of = papers(list(rows))
        return of.state(of.items[0])

    assert state() == "not measured"
    assert state(kept("a", (4.0, 5.0), 10)) == "reproduced"
    assert state(kept("a", (4.0, 5.0), 10), kept("b", (9.0, 10.0), 10)) == "larger"
    assert state(kept("a", (4.0, 5.0), 10), kept("b", (2.0, 4.0), 10)) == "undecided"
    assert state(kept("a", (4.0, 5.0), 10), kept("b", (1.0, 2.0), 10)) == "refuted"
    assert state(kept("a", (4.0, 5.0), 1)) == "undecided"
    assert state(kept("a", (4.0, 5.0), 10, not_judged="void")) == "not measured"


def test_mistakes_of_items_are_named(root):
    def said(of):
        with pytest.raises(ValueError) as error:
            items.check(of, root)
        return str(error.value)

    none = items.Papers(papers([]).items, [])
    assert said(none) == "items.toml: item 1 has no claim: write tests, by_hand or gap"
    assert said(papers([], gap="why")) == "items.toml: item 1 has more than one of claims, tests, by_hand and gap"
    assert said(papers([], tests="no/such/file")) == "items.toml: item 1: there is no no/such/file"
    assert said(papers([], number=3)) == "items.toml: item 3 is the one at place 1: they count up from 1"
    beyond = papers([])
    other = dataclasses.replace(beyond.claims[0].claim, items=(1, 2))
    beyond.claims[0] = items.Declared("000-x", other)
    assert said(beyond) == "000-x.toml: `3 to 8`: items.toml has items 1 to 1"
