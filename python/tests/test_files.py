"""Files that are written whole or not at all."""

import pathlib

import pytest
from test_report import write

import weirlab
from weirlab.__main__ import main
from weirlab._files import write_text

CLAIM = """question = "q"
[figure]
paper = "000"
figure = "3"
claim = "c"
[[figure.expect]]
text = "t"
value = "slowdown_mean"
of = "weir"
least = 1.0
[[run]]
name = "weir"
"""


@pytest.mark.parametrize("flag", ["--md", "--claims"])
def test_a_page_that_has_no_room_leaves_the_one_before(tmp_path, capsys, flag):
    write(tmp_path / "runs", "weir", 5.0)
    (tmp_path / "runs" / "experiment.toml").write_text(CLAIM)
    page = tmp_path / "page"
    page.write_text("before")
    (tmp_path / ".part-page").symlink_to("/dev/full")
    assert main(["report", str(tmp_path / "runs"), flag, str(page)]) == 1
    said = capsys.readouterr().err
    assert said == f"weirlab: {page}: No space left on device: nothing was changed; mend it and call again\n"
    assert page.read_text() == "before" and sorted(of.name for of in tmp_path.iterdir()) == ["page", "runs"]
    assert main(["report", str(tmp_path / "runs"), flag, str(page)]) == 0
    assert page.read_text() != "before"


def test_claims_of_runs_without_an_experiment_are_refused(tmp_path, capsys):
    write(tmp_path / "runs", "weir", 5.0)
    assert main(["report", str(tmp_path / "runs"), "--claims", str(tmp_path / "claims.json")]) == 1
    assert "no experiment.toml with claims is here" in capsys.readouterr().err
    assert not (tmp_path / "claims.json").exists()


def test_responses_that_have_no_room_are_named(tmp_path, capsys):
    write(tmp_path / "runs", "weir", 5.0)
    kept = tmp_path / "kept" / "responses"
    kept.mkdir(parents=True)
    (kept / ".part-all.parquet").symlink_to("/dev/full")
    assert main(["keep", str(tmp_path / "runs"), str(tmp_path / "kept")]) == 1
    assert f"{kept / 'all.parquet'}: No space left on device: " in capsys.readouterr().err
    assert list(kept.iterdir()) == []
    assert main(["keep", str(tmp_path / "runs"), str(tmp_path / "kept")]) == 0


def test_what_is_no_file_keeps_its_name():
    write_text("/dev/null", "a page")
    assert pathlib.Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"jobs": -1}, "jobs: -1 is no whole number from 0"),
        ({"seed": -1}, "seed: -1 is no"),
        ({"jobs": 0}, "jobs: 0: write 1 to"),
    ],
)
def test_numbers_of_jobs_that_are_none_are_named(given, said):
    with pytest.raises(ValueError, match=said):
        weirlab.poisson("exponential:mean=5000", 0.8, **given)
