"""Request logs as columns, good and bad."""

import gzip

import pytest

import weirlab

COMMON = '{host} - - [01/Jul/1995:00:00:{second:02} -0400] "GET /a HTTP/1.0" {status} {size}\n'


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_the_trace_of_the_project(root):
    table = weirlab.trace(root / "traces" / "synthetic.csv.gz")
    assert table.column_names == ["arrival_ns", "size_bytes", "status", "client"]
    arrivals = table["arrival_ns"].to_numpy()
    assert arrivals[0] == 0 and (arrivals[1:] >= arrivals[:-1]).all()
    assert len(table) > 1000 and table["size_bytes"].to_numpy().min() > 0
    done = weirlab.simulate(table["size_bytes"], weirlab.stretch(table["size_bytes"], arrivals, 0.8))
    assert weirlab.response_ms(done).min() > 0


def test_a_common_log_with_what_goes_wrong(tmp_path):
    lines = [
        COMMON.format(host="b", second=9, status=200, size=300),
        COMMON.format(host="a", second=1, status=200, size=100),
        COMMON.format(host="a", second=1, status=404, size=7),
        COMMON.format(host="a", second=2, status=200, size=0),
        COMMON.format(host="a", second=2, status=200, size="-"),
        COMMON.format(host="a", second=2, status=200, size=2**63),
        "nonsense\n",
    ]
    path = write(tmp_path, "access.log", "".join(lines))
    with pytest.warns(UserWarning, match=r"2 line\(s\) passed over, the first .*access.log:6: "):
        table = weirlab.trace(path)
    # Times that go back are put in order, and the gap stays; within their whole seconds arrivals are spread.
    assert table["size_bytes"].to_pylist() == [100, 300]
    assert table["arrival_ns"].to_pylist()[0] == 0
    assert 7e9 < table["arrival_ns"].to_pylist()[1] < 9e9
    assert table["client"].to_pylist() == [1, 0]
    with pytest.warns(UserWarning):
        assert sorted(weirlab.trace(path, everything=True)["size_bytes"].to_pylist()) == [0, 0, 7, 100, 300]
    with pytest.raises(ValueError, match=r"access.log:6: .*9223372036854775808"):
        weirlab.trace(path, strict=True)


def test_columns_without_a_status_or_a_client(tmp_path):
    path = write(tmp_path, "a.csv", "epoch_s,size_bytes,status\n5.25,100,\n5,200,200\n")
    table = weirlab.trace(path)
    assert table["arrival_ns"].to_pylist() == [0, 250_000_000]
    assert table["status"].to_pylist() == [200, None]
    assert table["client"].null_count == 2
    assert table.schema.metadata[b"lines_passed_over"] == b"0"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("what is this\n", "not a request log"),
        ("epoch_s,size_bytes,status\n5,100,404\n", "none of its 1 requests has a body and status 200"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path, text, said):
    path = write(tmp_path, "a.log", text)
    with pytest.raises(ValueError, match=f"a.log: {said}"):
        weirlab.trace(path)


def test_a_file_cut_short_or_not_there(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"epoch_s,size_bytes,status\n" + b"5,100,200\n" * 1000)[:-20])
    with pytest.raises(ValueError, match="the gzip data ends early"):
        weirlab.trace(path)
    with pytest.raises(OSError, match="absent"):
        weirlab.trace(tmp_path / "absent")
