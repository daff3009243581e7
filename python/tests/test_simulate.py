"""The simulator by names and by functions."""

import contextlib

import numpy as np
import pytest

import weirlab

JOBS = weirlab.poisson("pareto:min=500,max=1000000,alpha=1.2", rho=0.8, jobs=20_000, seed=3)


def ends(policy, **settings):
    return weirlab.simulate(JOBS["size_bytes"], JOBS["arrival_ns"], policy=policy, **settings)["end_ns"].to_numpy()


def by_hand(policy):
    """A job of 1,000 bytes at 0, one of 100 bytes at 80 us (when 100 bytes are sent), one of 500 bytes at 160 us."""
    table = weirlab.simulate([1000, 100, 500], [0, 80_000, 160_000], "10mbit", policy)
    return weirlab.response_ms(table).round(6).tolist()


def test_orders_by_hand():
    # 800 ns a byte.
    assert by_hand("fcfs") == [0.8, 0.8, 1.12]
    assert by_hand("srpt") == [1.28, 0.08, 0.4]
    assert by_hand(lambda size, left, sent, age, of_class, path: left) == [1.28, 0.08, 0.4]
    # The largest first.
    assert by_hand(lambda size, left, sent, age, of_class, path: -size) == [0.8, 1.2, 1.04]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("srpt", lambda size, left, sent, age, of_class, path: left),
        ("rank:left", lambda size, left, sent, age, of_class, path: left),
        ("rank:min(left, 9KB)", lambda size, left, sent, age, of_class, path: min(left, 9000)),
        ("psjf", lambda size, left, sent, age, of_class, path: size),
        ("fcfs", lambda size, left, sent, age, of_class, path: 0),
        ("srpt-bands:1KB,20KB", lambda size, left, sent, age, of_class, path: (left > 1000) + (left > 20_000)),
    ],
)
def test_a_function_is_the_policy_of_that_rank_job_by_job(name, function):
    assert (ends(function) == ends(name)).all()


@pytest.mark.parametrize("settings", [{"chunk": 1448}, {"wire": "tcp"}, {"link": "37mbit"}, {"paths": "internet"}])
def test_a_function_is_its_policy_in_every_setting(settings):
    assert (ends(lambda size, left, sent, age, of_class, path: left, **settings) == ends("srpt", **settings)).all()


def test_srpt_is_the_least_mean_there_is_and_ps_is_ideal_sharing():
    bounds = weirlab.bounds(JOBS["size_bytes"], JOBS["arrival_ns"])
    arrivals = JOBS["arrival_ns"].to_numpy()
    assert (ends("srpt") - arrivals == bounds["best_ns"].to_numpy()).all()
    assert np.allclose(ends("ps") - arrivals, bounds["shared_ns"].to_numpy(), atol=len(arrivals))


def test_arguments_of_a_function():
    seen = []

    def policy(size, left, sent, age, of_class, path):
        seen.append((size, left, sent, age, of_class, path))
        return left

    weirlab.simulate([1000, 100], [1_000_000, 1_080_000], "10mbit", policy, classes=[7, 3])
    assert seen[0] == (1000, 1000.0, 0.0, 0.0, 7, None)
    assert (1000, 900.0, 100.0, 80e-6, 7, None) in seen
    assert (100, 100.0, 0.0, 0.0, 3, None) in seen

    paths = []
    ends(lambda size, left, sent, age, of_class, path: paths.append(path) or left, paths="internet")
    assert {path.throughput_bps for path in paths} >= {14_000, 10_000_000}
    assert {path.rtt_s for path in paths} == {0.02, 0.05, 0.09, 0.28}
    assert min(path.window_bytes for path in paths) == pytest.approx(14_480, rel=0.1)


def test_an_expression_has_the_classes_too():
    """The class counts first, and is what a function is given."""
    jobs, classes = weirlab.poisson("exponential:mean=5000", 0.8, jobs=2000), [0, 1, 2, 1] * 500
    of = [
        weirlab.simulate(jobs["size_bytes"], jobs["arrival_ns"], policy=policy, classes=classes)["end_ns"].to_pylist()
        for policy in ("rank:class * 1MB + left", lambda size, left, sent, age, of_class, path: of_class * 1_000_000 + left)
    ]
    assert of[0] == of[1]


def test_a_rank_that_grows_has_chunks_that_a_warning_names():
    jobs = weirlab.poisson("exponential:mean=5000", 0.8, jobs=2000)
    means = []
    for policy, said in (("las", None), ("rank:sent", None), ("rank:sent * 2", "service is in chunks of 1?[0-9][0-9] bytes")):
        with contextlib.nullcontext() if said is None else pytest.warns(UserWarning, match=said):
            done = weirlab.simulate(jobs["size_bytes"], jobs["arrival_ns"], policy=policy)
        means.append(weirlab.response_ms(done).mean())
    assert means[0] == means[1] and means[2] == pytest.approx(means[0], rel=0.03)


def test_ages_are_of_the_clock():
    """Oldest first by age is first come, first served, where a rank is asked for at each arrival of another."""
    ages = []

    def policy(size, left, sent, age, of_class, path):
        ages.append((age, sent))
        return -age

    weirlab.simulate([1000, 1000, 1000], [0, 100_000, 200_000], "10mbit", policy)
    assert max(age for age, _ in ages) == pytest.approx(200e-6)


def test_a_function_that_raises_is_named_with_its_cause():
    def policy(size, left, sent, age, of_class, path):
        return {}[size]

    with pytest.raises(weirlab.PolicyError, match=r"policy, job 0 \(1000 bytes, 1000 left\): the function raised") as raised:
        weirlab.simulate([1000, 100], [0, 1], policy=policy)
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (float("nan"), "returned NaN"),
        (np.float64("nan"), "returned NaN"),
        (None, "returned what is no number"),
        ("5", "returned what is no number"),
        (10**400, "returned what is no number"),
    ],
)
def test_what_is_no_rank_is_named(returned, said):
    with pytest.raises(weirlab.PolicyError, match=said):
        ends(lambda *_: returned)


@pytest.mark.parametrize("returned", [float("inf"), -float("inf"), True, np.float32(3), -0.0, 10**300])
def test_what_is_a_rank(returned):
    assert (ends(lambda *_: returned) == ends("fcfs")).all()


def test_a_slow_function_is_named():
    import time

    with pytest.raises(weirlab.PolicyError, match=r"more than 0.001 s of the processor \(call_limit_s\)"):
        ends(lambda *_: sum(range(1_000_000)), call_limit_s=0.001)
    # A busy machine may take as long from it, and what waits computes nothing.
    sizes = weirlab.simulate([1000], [0], policy=lambda *_: time.sleep(0.3) or 1, call_limit_s=0.2)["size_bytes"]
    assert sizes.to_pylist() == [1000]
    with pytest.raises(ValueError, match="call_limit_s: 0: write seconds above 0, or None"):
        ends(lambda *_: 1, call_limit_s=0)


def test_nothing_is_called_after_a_failure_and_ctrl_c_is_not_the_policys():
    calls = []

    def policy(*_):
        calls.append(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ends(policy)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("sizes", "arrivals", "settings", "said"),
    [
        ([1, 1], [5, 4], {}, "arrivals: job 1 arrives at 4 ns, before the one ahead of it at 5 ns: sort by time"),
        ([1, 1], [5], {}, "arrivals: 1 arrivals for 2 sizes"),
        ([], [], {}, "sizes: there are no jobs in it"),
        ([2**63], [0], {}, "a job of 9223372036854775808 bytes .* later than any run may"),
        ([2**64], [0], {}, "sizes: number 0 is 18446744073709551616; expected a whole number"),
        ([1, -1], [0, 0], {}, "sizes: number 1 is -1"),
        ([1.5], [0], {}, "sizes: number 0 is 1.5"),
        ([float("nan")], [0], {}, "sizes: number 0 is nan"),
        (["a"], [0], {}, "sizes: number 0 is 'a'"),
        ([[1]], [0], {}, "sizes: 2 dimensions"),
        ([1], [0], {"policy": "sprt"}, "unknown policy `sprt`"),
        ([1], [0], {"link": "fast"}, "link: `fast`"),
        ([1], [0], {"link": "10gbit"}, "link: 10gbit is above 8gbit"),
        ([1], [0], {"chunk": 0}, "chunk: chunks of 0 bytes"),
        ([1], [0], {"chunk": -1}, "chunk: -1 is no whole number from 0"),
        ([1], [0], {"chunk": True}, "chunk: True is no whole number"),
        ([1], [0], {"seed": 1.5}, "seed: 1.5 is no whole number"),
        ([1], [0], {"wire": "x"}, "wire: `x`: write plain or tcp"),
        ([1], [0], {"paths": "x"}, "paths: `x`: write unknown or internet"),
        ([1], [0], {"classes": [1]}, "classes: `srpt` looks at no class"),
        ([1], [0], {"classes": [1, 2], "policy": min}, "classes: 2 for 1 jobs"),
    ],
)
def test_mistakes_are_named(sizes, arrivals, settings, said):
    with pytest.raises(ValueError, match=said):
        weirlab.simulate(sizes, arrivals, **settings)


def test_a_size_of_0_is_sent_as_one_byte_and_gaps_stay():
    table = weirlab.simulate([0, 5], [0, 3_600_000_000_000], "10mbit", "srpt")
    assert table["end_ns"].to_pylist() == [800, 3_600_000_004_000]


def test_stretch_loads_the_link():
    sizes = JOBS["size_bytes"].to_numpy()
    arrivals = weirlab.stretch(sizes, JOBS["arrival_ns"], rho=0.5)
    assert arrivals[0] == 0
    assert sizes.sum() * 800 / arrivals[-1] == pytest.approx(0.5, rel=1e-3)


def test_theory_and_simulation_agree():
    dist = "exponential:mean=5000"
    solution = weirlab.theory("ps", dist, 0.8)
    assert solution.response_ms == pytest.approx(20)
    assert solution.arrivals_per_s == pytest.approx(200)
    assert weirlab.theory("ps", [5000, 5000], 0.5, at_size=5000).response_ms == pytest.approx(8)
    jobs = weirlab.poisson(dist, 0.8, jobs=200_000)
    for policy in ("ps", "srpt", "fcfs"):
        done = weirlab.simulate(jobs["size_bytes"], jobs["arrival_ns"], policy=policy)
        mean = weirlab.response_ms(done).mean()
        assert mean == pytest.approx(weirlab.theory(policy, dist, 0.8).response_ms, rel=0.06), policy


def test_theory_of_an_expression_is_that_of_its_policy():
    of = [
        weirlab.theory(policy, "exponential:mean=5000", 0.8).response_ms for policy in ("rank:left", "srpt", "rank:left / size")
    ]
    assert of[0] == pytest.approx(of[1], rel=1e-3)
    assert of[2] > of[0]
    with pytest.raises(ValueError, match="policy: no closed form is known for more than size"):
        weirlab.theory("rank:left * rtt", "exponential:mean=5000", 0.8)


def test_a_load_that_alternates():
    fair, srpt = (weirlab.alternating(policy, "bounded-pareto:alpha=1.1,min=100,max=1e6", "W1") for policy in ("fair", "srpt"))
    assert fair[0] > 2 * srpt[0] and fair[2] > 5 * srpt[2]
    with pytest.raises(ValueError, match="no approximation is known for policy `las`"):
        weirlab.alternating("las", "exponential:mean=5000", "W1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fcf", "exponential:mean=5000", 0.8), "no closed form is known"),
        (("srpt", "exponential:mean=5000", 1.0), "no steady state"),
        (("srpt", "exponential", 0.5), "sizes: "),
        (("srpt", [], 0.5), "sizes: "),
    ],
)
def test_theory_names_mistakes(arguments, said):
    with pytest.raises(ValueError, match=said):
        weirlab.theory(*arguments)
