"""Facts about the machine that a result depends on, and its present disturbances."""

import os
import platform
import time
from collections.abc import Sequence

from hakmem_lab.system.files import rows, text

BUSY_LOAD_PER_PROCESSOR = 0.5
STEAL_WARN_PERCENT = 5.0
WINDOW_S = 0.3


def _read(path: str, default: str = "unknown") -> str:
    found = text(path)
    return default if found is None else found


def _field(of: str, name: str, default: str = "unknown") -> str:
    for line in of.splitlines():
        key, _, value = line.partition(":" if ":" in line else "=")
        if key.strip() == name:
            return value.strip().strip('"')
    return default


def chosen(path: str) -> str:
    """The word in brackets of a file such as `always [madvise] never`."""
    found = _read(path)
    return found.partition("[")[2].partition("]")[0] or found


def _ticks() -> list[int]:
    """Ticks of all processors since boot, by kind of work; the first two include the time of guests."""
    return [int(word) for word in rows("/proc/stat").get("cpu", "0").split()[:8]]


class StealMeter:
    """Share of processor time that the hypervisor gave to other machines since the last reading, in percent."""

    def __init__(self) -> None:
        self._last = self._ticks()

    @staticmethod
    def _ticks() -> tuple[int, int]:
        fields = _ticks()
        return sum(fields), fields[7] if len(fields) > 7 else 0

    @classmethod
    def since_boot(cls) -> float:
        total, steal = cls._ticks()
        return 100.0 * steal / total if total else 0.0

    def percent(self) -> float:
        now = self._ticks()
        total, steal = now[0] - self._last[0], now[1] - self._last[1]
        self._last = now
        return 100.0 * steal / total if total > 0 else 0.0


def load_1m() -> float:
    return os.getloadavg()[0]


def busy_processors() -> float:
    """Mean number of busy processors over a short time."""
    first = _ticks()
    time.sleep(WINDOW_S)
    spent = [now - then for now, then in zip(_ticks(), first, strict=True)]
    return (os.cpu_count() or 1) * (1 - sum(spent[3:5]) / sum(spent)) if sum(spent) else 0.0


def separate_processors(allowed: Sequence[int], count: int) -> list[int]:
    """Up to `count` of these processors, no two of them hyperthreads of one core."""
    found: dict[str, int] = {}
    for cpu in sorted(allowed):
        core = text(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        found.setdefault(core, cpu)
    return list(found.values())[:count]


def available_kib() -> int:
    """Memory that programs may still use without swapping."""
    return int(rows("/proc/meminfo").get("MemAvailable", "0").split()[0])


def disturbance(busy: float, steal_percent: float) -> str | None:
    """What disturbs measurements on this machine at present; None if nothing does. busy: processors that other programs
    use."""
    processors = os.cpu_count() or 1
    if busy > BUSY_LOAD_PER_PROCESSOR * processors:
        used = min(busy, processors)
        return (
            f"load average {load_1m():.1f} on {processors} processors: other programs keep {used:.1f} of them busy and "
            f"disturb the figures"
        )
    if steal_percent > STEAL_WARN_PERCENT:
        return f"{steal_percent:.0f} % of the processor time is stolen by other virtual machines"
    return None


def facts() -> dict:
    cpu, info = _read("/proc/cpuinfo"), _read("/proc/meminfo")
    memory = _field(info, "MemTotal", "0 kB").split()[0]
    return {
        "cpu": _field(cpu, "model name", platform.machine()),
        "processors": os.cpu_count(),
        "memory_mib": int(memory) // 1024,
        "kernel": platform.release(),
        "distribution": _field(_read("/etc/os-release"), "PRETTY_NAME"),
        "libc": " ".join(platform.libc_ver()),
        "thp": chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "not visible"),
        "aslr": _read("/proc/sys/kernel/randomize_va_space"),
        "page_bytes": os.sysconf("SC_PAGESIZE"),
        "load_1m": load_1m(),
        "steal_percent": StealMeter.since_boot(),
        "virtualised": "hypervisor" in cpu,
    }
