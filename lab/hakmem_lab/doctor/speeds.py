"""`hak doctor --machine`: how steady are the processors, and how many blocks does a verdict need because of that?"""

import os
from pathlib import Path

from hakmem_lab.doctor import NOTE, OK, UNKNOWN, Check, Report
from hakmem_lab.judge.statistics import power, speeds
from hakmem_lab.system import machine
from hakmem_lab.system.compiled import compiled
from hakmem_lab.system.launcher import SOURCES, Launcher, Request

PROBE_S, MOST_PROCESSORS = 5.0, 8
MARGIN, ALPHA = 0.01, 0.05


def probed(seconds: float = PROBE_S) -> dict[int, list[tuple[int, int]]]:
    """Processor -> its samples. All are probed at the same time."""
    probe = compiled("speed", [*Path(SOURCES, "speed").glob("*.c")], purpose="probe of the processor's speed")
    processors = machine.separate_processors(sorted(os.sched_getaffinity(0)), MOST_PROCESSORS)
    launchers = {cpu: Launcher() for cpu in processors}
    try:
        started = {
            cpu: launcher.start(Request([str(probe), f"{seconds:g}"], {}, cpus=(cpu,), sample_ms=0))
            for cpu, launcher in launchers.items()
        }
        outputs = {cpu: running.wait().stdout for cpu, running in started.items()}
    finally:
        for launcher in launchers.values():
            launcher.close()
    return {
        cpu: [(int(at), int(took)) for at, took in map(str.split, out.splitlines())] for cpu, out in outputs.items()
    }


def report(samples: dict[int, list[tuple[int, int]]]) -> Report:
    """A line for each processor. `served`: all of them have one speed."""
    checks = [_check(cpu, each) for cpu, each in samples.items()]
    two = [check for check in checks if check.state == NOTE]
    unknown = [check for check in checks if check.state == UNKNOWN]
    text = f"{len(two)} of {len(checks)} processors change their speed" if two else "the processors keep their speed"
    return Report("not known for every processor" if unknown and not two else text, not two, False, tuple(checks))


def _check(cpu: int, samples: list[tuple[int, int]]) -> Check:
    name = f"processor {cpu}"
    try:
        found = speeds.found(samples)
    except ValueError as error:
        return Check(name, UNKNOWN, f"{error}: {len(samples)} samples")
    needs = f"runs one after the other need {_blocks(found.apart)}, together {_blocks(found.together)}"
    if found.ratio is None:
        return Check(name, OK, f"this processor has one speed, within {100 * found.spread:.2g} %: {needs}")
    each = f"each for about {found.stay_s:.2g} s"
    return Check(
        name,
        NOTE,
        f"this processor has two speeds, 1 : {found.ratio:.2f}, {each} ({found.slow:.0%} slow): {needs}",
        "compare processor time, which is measured together: --metric cpu",
    )


def _blocks(sigma: float) -> str:
    """Number of blocks, with runs of half a second, after which two equal sides are NEUTRAL at the usual margin."""
    count = power.blocks_for(sigma, 0.0, MARGIN, ALPHA) if sigma else power.least_blocks(ALPHA)
    return f"{count:,} blocks" if count else f"more than {power.MOST_BLOCKS:,} blocks"
