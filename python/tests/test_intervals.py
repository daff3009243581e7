"""Intervals, figures and verdicts by hand."""

import numpy as np
import pyarrow as pa
import pytest

from weirlab import Responses, figures, intervals


def test_the_interval_of_a_mean():
    found = intervals.mean([1.0, 2.0, 3.0])
    assert (found.value, found.low, found.high) == pytest.approx((2, 2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5))
    assert intervals.mean([1, 2, 3], level=0.99).high == pytest.approx(2 + 9.925 / 3**0.5)
    assert intervals.mean([5]) == intervals.Estimate(5.0)
    with pytest.raises(ValueError, match="no values"):
        intervals.mean([])


def test_students_t_is_that_of_tables():
    assert [intervals.student_t(degrees) for degrees in (1, 4, 9, 30)] == [12.706, 2.776, 2.262, 2.042]
    assert intervals.student_t(40) == pytest.approx(2.0211, abs=1e-4)


def test_a_ratio_of_2_and_one_of_a_half_cancel_out():
    found = intervals.ratio([(2, 1), (1, 2)])
    assert found.value == pytest.approx(1)
    assert found.low * found.high == pytest.approx(1)
    assert intervals.ratio([(2, 1), (0, 2)]) == intervals.Estimate(2.0)
    # A share has no logarithm, and a ratio of nothing none either.
    assert intervals.pooled([0.5, 1.0], is_ratio=False).value == 0.75
    assert intervals.pooled([0.0, 1.0], is_ratio=True).value == 0.5
    assert intervals.pooled([0.25, 1.0], is_ratio=True).value == 0.5


def responses(ms, sizes=None, complete=None):
    sizes = np.arange(1, len(ms) + 1) if sizes is None else np.asarray(sizes)
    is_complete = np.ones(len(ms), bool) if complete is None else np.asarray(complete)
    return Responses(sizes.astype(np.uint64), np.asarray(ms, float), is_complete)


def test_figures_of_a_run():
    run = responses([1, 4, 5, 0], complete=[True, False, True, True])
    values = {
        "response_time_ms.mean": 2.5,
        "response_time_ms.p50": 1,
        "response_time_ms.p90": 5,
        "response_time_ms.max": 5,
        "response_time_ms.variance": 4.25,
        "response_time_ms.scv": 0.68,
        "completed_ms.mean": 2,
        "completed": 3,
        "incomplete": 1,
        "incomplete_share": 0.25,
    }
    assert {name: figures.figure(name, run) for name in values} == pytest.approx(values)
    assert figures.figure("bytes", responses([1, 4, 5])) == 6
    with pytest.raises(figures.NoFigure, match="bytes: these responses were not kept with it"):
        figures.figure("bytes", run)
    with pytest.raises(ValueError, match="`server_cpu` is no figure"):
        figures.figure("server_cpu", run)
    with pytest.raises(ValueError, match="no request counts"):
        figures.figure("response_time_ms.mean", run, np.zeros(4, bool))
    with pytest.raises(figures.NoFigure, match="slowdown: these responses were not kept with it"):
        figures.figure("slowdown_mean", run)
    assert figures.figure("slowdown_mean", run, alone_ms=np.array([1, 2, 2.5, 1])) == 1.25


def test_figures_of_what_was_measured_from_outside():
    states = {f"connections_{state}": [1, 2, 0] for state in ("established", "fin_wait_1", "close_wait", "last_ack", "closing")}
    samples = pa.table({"at_ns": [1, 2_000_000_000, 3], **states, "listen_drops_total": [5, 5, 9], "queue": [4, 0, 2]})
    values = {
        "connections_max": 10,
        "syn_drops": 4,
        "samples.queue.max": 4,
        "samples.queue.mean": 2,
        "samples.queue.last": 2,
        "samples.connections_established.first_s": 1e-9,
        "samples.listen_drops_total.first_s": 3e-9,
    }
    assert {name: figures.counter(name, samples) for name in values} == values
    for name, of in (("samples.absent.max", samples), ("syn_drops", None), ("samples.queue.first_s", samples.slice(1, 1))):
        with pytest.raises(figures.NoFigure, match=name):
            figures.counter(name, of)


def test_figures_of_two_runs():
    run, base = responses([1, 4, 5, 0]), responses([4, 4, 2, 0])
    values = {"share_gaining": 0.25, "share_starved": 0.25, "stretch.mean": 1.1875, "stretch.max": 2.5}
    assert {name: figures.of_pair(name, run, base) for name in values} == values
    with pytest.raises(ValueError, match="different requests"):
        figures.of_pair("share_gaining", run, responses([1]))
    with pytest.raises(ValueError, match="`share` is no figure of two runs"):
        figures.of_pair("share", run, base)


def test_requests_that_are_alike():
    """Two in each half percent, as in lab/report/src/alike.rs: of each pair one takes 1 and one 5, where both took 4."""
    sizes = 100 + np.arange(400) // 2
    mine = np.where(np.arange(400) < 398, np.where(np.arange(400) % 2 == 0, 1.0, 5.0), 9.0)
    run, base = responses(mine, sizes), responses(np.full(400, 4.0), sizes)
    assert figures.of_pair("bucket_share_gaining", run, base) == 0.995
    assert figures.of_pair("file_share_starved", run, base) == 0.005
    pair, other = responses(np.tile([1.0, 2.0], 200), sizes), responses(np.tile([2.0, 6.0], 200), sizes)
    assert figures.of_pair("bucket_variance_ratio", pair, other) == 16
    assert figures.of_pair("bucket_scv_ratio", pair, other) == pytest.approx(0.25 / (0.25 / 2.25))
    assert figures.of_pair("bucket_variance_ratio", other, other) == 1


def test_percentiles_of_sizes_count_equal_ones_by_arrival():
    assert figures.share_within(np.array([7, 7, 7, 7], np.uint64), 0, 50).tolist() == [True, True, False, False]
    assert figures.share_within(np.arange(1000).astype(np.uint64), 99.5, 100).sum() == 5


def test_bins_that_grow():
    """As in lab/stats/src/size.rs: of [x, 1.2 x), and at least of one size."""
    sizes, means = figures.growth(np.array([100, 300, 119, 120, 0, 0], np.uint64), np.array([1.0, 9.0, 5.0, 7.0, 2.0, 4.0]))
    assert (sizes.tolist(), means.tolist()) == ([0, 109.5, 120, 300], [3, 3, 7, 9])
    assert [len(of) for of in figures.growth(np.array([], np.uint64), np.array([]))] == [0, 0]
