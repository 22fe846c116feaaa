"""The mean over a fleet: it matches published figures, handles few hosts, and its interval is right often enough."""

import math

import numpy as np
import pytest

from hakmem_fleet.hosts import Host, fleet, of_blocks, together

# A standard example, 13 trials of a vaccine (Colditz et al. 1994): ill and well with it, then ill and well without.
TRIALS = [
    (4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619), (33, 5036, 47, 5761),
    (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892), (29, 7470, 45, 7232), (17, 1699, 65, 1600),
    (186, 50448, 141, 27197), (5, 2493, 3, 2338), (27, 16886, 29, 17825),
]  # fmt: skip


def vaccine():
    hosts = []
    for ill, well, other_ill, other_well in TRIALS:
        mine, others = ill + well, other_ill + other_well
        effect = math.log((ill / mine) / (other_ill / others))
        hosts.append(Host(effect, 1 / ill - 1 / mine + 1 / other_ill - 1 / others, 1))
    return hosts


def test_the_figures_are_those_that_are_published():
    """The R package metafor prints these figures, by restricted maximum likelihood and the Hartung–Knapp interval."""
    found = fleet(vaccine())
    interval = found.interval(0.95)
    assert found.tau2 == pytest.approx(0.3132, abs=5e-5)
    assert found.i2 == pytest.approx(0.9222, abs=5e-5)
    assert found.q == pytest.approx(152.2330, abs=5e-5)
    assert (found.estimate, found.error) == pytest.approx((-0.7145, 0.1808), abs=5e-5)
    assert (interval.low, interval.high) == pytest.approx((-1.1084, -0.3206), abs=5e-5)


def test_tau_is_at_the_maximum_of_the_restricted_likelihood():
    hosts = vaccine()
    y, v = np.array([host.estimate for host in hosts]), np.array([host.variance for host in hosts])

    def likelihood(tau2):
        w = 1 / (v + tau2)
        mean = w @ y / w.sum()
        return -0.5 * (np.log(v + tau2).sum() + np.log(w.sum()) + w @ (y - mean) ** 2)

    best = fleet(hosts).tau2
    assert likelihood(best) > max(likelihood(best * 0.999), likelihood(best * 1.001))


def test_tau_is_the_best_one_also_where_errors_are_very_unlike():
    """A search by steps along the slope would oscillate here, and wrongly find no difference between hosts."""
    rng, apart = np.random.default_rng(1), 0
    for _ in range(400):
        count = rng.integers(2, 12)
        v = rng.lognormal(-8, 1.5, count)
        y = rng.normal(0, np.sqrt(v + rng.choice([0, 1e-5, 1e-4, 1e-3])))

        def likelihood(tau2, y=y, v=v):
            w = 1 / (v + tau2)
            return -0.5 * (np.log(v + tau2).sum() + np.log(w.sum()) + w @ (y - w @ y / w.sum()) ** 2)

        best = fleet([Host(*each, 5) for each in zip(y, v, strict=True)]).tau2
        assert likelihood(best) >= max(map(likelihood, [0.0, *np.geomspace(1e-9, 1e-1, 120)])) - 1e-9
        apart += best > 0
    assert 100 < apart < 350


def test_hosts_that_agree_have_no_spread_of_their_own():
    hosts = [Host(0.02, 1e-4, 8), Host(0.021, 1e-4, 8), Host(0.019, 1e-4, 8)]
    found = fleet(hosts)
    assert (found.tau2, found.i2) == (0.0, 0.0)
    assert found.error == pytest.approx(math.sqrt(1e-4 / 3)), "closer together than their errors: no narrower for that"
    assert found.differ_p() > 0.9


def test_one_host_says_nothing_of_a_fleet():
    found = fleet([Host(0.05, 1e-6, 500)])
    interval = found.interval(0.95)
    assert (interval.low, interval.high) == (-math.inf, math.inf)
    assert found.prediction(0.95) == (-math.inf, math.inf)
    assert together([Host(0.05, 1e-6, 500)], 0.95).low > 0.04


def test_two_hosts_cannot_say_what_a_third_one_does():
    found = fleet([Host(0.05, 1e-6, 50), Host(0.06, 1e-6, 50)])
    assert found.interval(0.95).low < 0 < found.interval(0.95).high
    assert found.prediction(0.95) == (-math.inf, math.inf)


def test_it_is_hosts_that_are_counted_and_not_blocks():
    few, many = ([Host(x, 0.01**2 / n, n) for x in (0.00, 0.04, 0.08)] for n in (10, 100_000))
    assert fleet(many).interval(0.95).low < 0, "however many blocks"
    assert fleet(many).error == pytest.approx(fleet(few).error, rel=0.05)


def test_a_host_of_one_block_has_the_others_spread():
    rng = np.random.default_rng(3)
    columns = {"one": [0.01], "two": list(rng.normal(0, 0.02, 40)), "three": list(rng.normal(0, 0.02, 40))}
    found = of_blocks(columns)
    assert found["one"].variance == pytest.approx(0.02**2, rel=0.5)
    assert found["two"].variance == pytest.approx(0.02**2 / 40, rel=0.5)


def test_what_never_varies_is_no_division_by_zero():
    found = fleet(list(of_blocks({name: [0.03] * 5 for name in "abc"}).values()))
    assert found.estimate == pytest.approx(0.03)
    assert found.interval(0.95).low == pytest.approx(0.03, abs=1e-6)


def test_no_host_is_no_fleet():
    with pytest.raises(ValueError, match="at least one host"):
        fleet([])


TRIES = 400


@pytest.mark.parametrize(("count", "tau"), [(3, 0.0), (3, 0.03), (4, 0.01), (8, 0.0), (8, 0.03), (20, 0.01)])
def test_the_interval_holds_as_often_as_it_says(count, tau):
    """Hosts with unequal noise and effects of their own around 0, so misses are also the rate of false verdicts."""
    rng = np.random.default_rng([count, round(1000 * tau)])
    held = expected = 0
    for _ in range(TRIES):
        noise = rng.uniform(0.01, 0.05, count)
        columns = {str(host): rng.normal(rng.normal(0, tau), noise[host], 10) for host in range(count)}
        found = fleet(list(of_blocks(columns).values()))
        interval, (low, high) = found.interval(0.95), found.prediction(0.95)
        held += interval.low <= 0 <= interval.high
        expected += low <= rng.normal(0, tau) <= high
    slack = 2.6 * math.sqrt(0.05 * 0.95 * TRIES)  # exceeded by chance once in 200 times
    assert held >= 0.95 * TRIES - slack
    assert expected >= 0.95 * TRIES - slack, "a further host's"
