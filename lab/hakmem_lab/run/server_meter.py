"""What a server uses while its client runs."""

import contextlib
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from hakmem_lab.system.cgroup import Group
from hakmem_lab.system.launcher import Outcome

RESET_PEAK = "5"


class ServerMeter:
    """What a server uses from `begin` to `end`: its first process, or all of them where they have a group.

    To be made as soon as the server has been started, from when its memory over time counts.
    """

    def __init__(self, pid: int, group: Group | None):
        self._pid, self._group, self._started_s = pid, group, time.monotonic()
        self._cpu_s, self._window_ms = None, (0.0, 0.0)

    def begin(self) -> None:
        if self._group:
            self._group.mark()
        self._cpu_s = self._used_s()
        with contextlib.suppress(OSError):  # the peak then includes the start, as for any process
            Path(f"/proc/{self._pid}/clear_refs").write_text(RESET_PEAK, encoding="ascii")
        self._window_ms = (self._age_ms(), 0.0)

    def _age_ms(self) -> float:
        return (time.monotonic() - self._started_s) * 1000

    def _used_s(self) -> float | None:
        """None if the process is gone."""
        import psutil

        try:
            times = psutil.Process(self._pid).cpu_times()
        except psutil.Error:
            return None
        return times.user + times.system

    def end(self) -> dict:
        """Empty if the process is gone."""
        self._window_ms = (self._window_ms[0], self._age_ms())
        used_s = self._used_s()
        try:
            status = Path(f"/proc/{self._pid}/status").read_text(encoding="ascii")
            peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
        except (OSError, StopIteration):
            return {}
        if used_s is None or self._cpu_s is None:
            return {}
        tree = self._group.read() if self._group else None
        whole = (tree or {}).get("cpu_s")
        cpu_s = used_s - self._cpu_s if whole is None else whole
        return {"cpu_s": cpu_s, "rss_peak_kib": peak, "tree": tree}

    def memory(self, outcome: Outcome, used: dict) -> dict:
        """Its memory over its whole life, and its means and peaks between the two moments."""
        rss, pss = within(outcome.rss_series, self._window_ms), within(outcome.pss_series, self._window_ms)
        found = {"window_ms": [round(at) for at in self._window_ms], "rss_series": outcome.rss_series}
        found |= {"pss_series": outcome.pss_series, "rss_mean_kib": mean_of(rss), "pss_mean_kib": mean_of(pss)}
        found["pss_peak_kib"] = peak_of(pss)
        if rss and "rss_peak_kib" in used:
            found["rss_peak_kib"] = max(used["rss_peak_kib"], peak_of(rss))
        return found


def within(series: Sequence[tuple[int, int]], window_ms: tuple[float, float]) -> list[tuple[int, int]]:
    """The points between two times; where there is none, the nearest one."""
    first, last = window_ms
    before = [(at, kib) for at, kib in series if at <= last]
    return [(at, kib) for at, kib in before if at >= first] or before[-1:] or list(series[:1])


def peak_of(series: Sequence[tuple[int, int]]) -> int | None:
    return max((kib for _, kib in series), default=None)


def mean_of(series: Sequence[tuple[int, int]]) -> float | None:
    """Every point stands for equally many samples."""
    return statistics.fmean(kib for _, kib in series) if series else None
