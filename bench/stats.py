"""The little statistics the benchmark drivers need: medians and intervals of paired log-ratios."""

import math
import statistics


def _signed_rank_counts(n):
    """How many of the 2^n sign patterns give each value of the signed-rank sum."""
    counts = [1]
    for rank in range(1, n + 1):
        longer = counts + [0] * rank
        for total, ways in enumerate(counts):
            longer[total + rank] += ways
        counts = longer
    return counts


def _walsh_cut(n, alpha):
    """How many of the sorted Walsh averages to leave out at each end for a 1 - alpha interval."""
    below = 0.0
    for cut, ways in enumerate(_signed_rank_counts(n)):
        below += ways / 2.0**n
        if below > alpha / 2:
            return cut
    return 0


def paired_ratio(treatment, reference, alpha=0.05):
    """Hodges-Lehmann estimate of treatment / reference from paired runs, with its signed-rank interval.

    With fewer than six pairs no interval reaches 95 %; the widest one available is given.
    """
    logs = [math.log(t / r) for t, r in zip(treatment, reference)]
    walsh = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    cut = _walsh_cut(len(logs), alpha)
    low, high = walsh[cut], walsh[-1 - cut]
    return tuple(math.exp(x) for x in (statistics.median(walsh), low, high))


def median_interval(values, alpha=0.05):
    """Median of values and its distribution-free interval from order statistics."""
    ordered = sorted(values)
    n, below, cut = len(ordered), 0.0, 0
    for k in range(n // 2):
        below += math.comb(n, k) / 2.0**n
        if below > alpha / 2:
            break
        cut = k + 1
    cut = max(cut - 1, 0)
    return statistics.median(ordered), ordered[cut], ordered[-1 - cut]
