"""`hak doctor --machine`: checks whether the machine is set up to measure, tunes its settings, and restores them.

The settings are clock, boost, memory layout and huge pages; the check also reports other load. Before a change, the old
values are written to a file and synced to the disk, so they survive a crash of `hak`. A restart of the machine resets
the settings by itself; values that were saved before the restart are then ignored.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.doctor import NOTE, OK, ROOT, UNKNOWN, Check, Report
from hakmem_lab.errors import LabError, decoded
from hakmem_lab.system import files, machine
from hakmem_lab.system.files import text

STATE, BOOT = Path("var/lib/hakmem-lab/system.json"), Path("proc/sys/kernel/random/boot_id")
CPU = "sys/devices/system/cpu"
TUNE = "hak doctor --machine --tune"
BUSIEST, LEAST_SHARE = 3, 0.05
BUSY = 0.5  # processors busy: a program that shares a processor with the measured one takes half of its time


@dataclass(frozen=True)
class Knob:
    """A setting of the machine. files: a pattern; quiet: the value that disturbs least; why: the effect of others."""

    name: str
    files: str
    quiet: str
    why: str

    def values(self, root: Path) -> dict[Path, str]:
        return {path: machine.chosen(str(path)) for path in sorted(root.glob(self.files))}


KNOBS = (
    Knob("governor", f"{CPU}/cpu[0-9]*/cpufreq/scaling_governor", "performance", "the clock follows the load"),
    Knob("turbo", f"{CPU}/intel_pstate/no_turbo", "1", "the clock depends on heat and on the other cores"),
    Knob("boost", f"{CPU}/cpufreq/boost", "0", "the clock depends on heat and on the other cores"),
    Knob("ASLR", "proc/sys/kernel/randomize_va_space", "2", "every run of a side has the same layout of memory"),
    Knob("huge pages", "sys/kernel/mm/transparent_hugepage/enabled", "madvise", "some runs get pages of 2 MiB"),
)


def report() -> Report:
    """What disturbs measurements on this machine; `served`: nothing."""
    checks = check()
    found = [check.name for check in checks if check.state == NOTE]
    text = f"what may disturb here: {', '.join(found)}" if found else "nothing here disturbs that hak can see"
    return Report(text, not found, False, tuple(checks))


def check(root: Path = ROOT) -> list[Check]:
    """One line for each setting, and the present load of the machine."""
    found = []
    for knob in KNOBS:
        values = knob.values(root)
        others = sorted({value for value in values.values() if value != knob.quiet})
        if not values:
            found.append(Check(knob.name, UNKNOWN, "this system, or its host, does not show it"))
        elif others:
            found.append(Check(knob.name, NOTE, f"{', '.join(others)}: {knob.why}", f"{TUNE}: {knob.quiet}"))
        else:
            found.append(Check(knob.name, OK, knob.quiet))
    return [*found, load(root), *_changed(root)]


def load(root: Path) -> Check:
    """The processes that use the processors now, and the time that the hypervisor takes."""
    steal, before, begun = machine.StealMeter(), _ticks(root), time.monotonic()
    busy = machine.busy_processors()
    after, stolen = _ticks(root), steal.percent()
    per_second = os.sysconf("SC_CLK_TCK") * (time.monotonic() - begun)
    shares = {pid: (ticks - before[pid][0]) / per_second for pid, (ticks, _) in after.items() if pid in before}
    most = sorted((pid for pid in shares if shares[pid] >= LEAST_SHARE), key=lambda pid: -shares[pid])[:BUSIEST]
    named = ", ".join(f"{after[pid][1]} ({pid}, {100 * shares[pid]:.0f} %)" for pid in most if pid != os.getpid())
    trouble = machine.disturbance(busy, stolen)
    if not trouble and busy >= BUSY:
        trouble = f"{busy:.1f} processors busy"
    if trouble:
        return Check("other load", NOTE, trouble + (f": {named}" if named else ""), "wait for it, or stop it")
    return Check("other load", OK, f"{busy:.1f} processors busy" + (f": {named}" if named else ""))


def _ticks(root: Path) -> dict[int, tuple[int, str]]:
    """Process -> (ticks of processor time, its name)."""
    found = {}
    for path in root.glob("proc/[0-9]*/stat"):
        name, _, rest = (text(path) or "").rpartition(")")
        if len(words := rest.split()) > 12:
            found[int(path.parent.name)] = int(words[11]) + int(words[12]), name.partition("(")[2]
    return found


def _kept(root: Path) -> dict[str, str]:
    """Path -> the value before the change; empty if the machine was restarted since. Raises LabError."""
    try:
        state = decoded(json.loads, (root / STATE).read_text(encoding="utf-8"))
        return state["before"] if state["boot"] == text(root / BOOT) else {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(
            f"{root / STATE} cannot be read: {error}; restore the settings by hand, and remove this file"
        ) from None


def _changed(root: Path) -> list[Check]:
    kept = _kept(root)
    now = f"{len(kept)} settings are not as they were before {TUNE}"
    return [Check("changed by hak", NOTE, now, "hak doctor --machine --undo")] if kept else []


def _may_write(paths: list[Path], root: Path, what: str) -> None:
    """Raises LabError if a file may not be written; called before anything is changed."""
    folder = next(path for path in (root / STATE).parents if path.exists())
    if refused := [path for path in [*paths, folder] if not os.access(path, os.W_OK)]:
        how = f"sudo hak doctor --machine --{what}" if os.geteuid() else "this container, or its host, forbids this"
        raise LabError(f"hak doctor --machine --{what}: no right to write {refused[0]}, and nothing was changed: {how}")


def tune(root: Path = ROOT) -> list[str]:
    """Tune the machine; return a line for each change. Raises LabError."""
    wanted = {path: knob for knob in KNOBS for path, value in knob.values(root).items() if value != knob.quiet}
    if not wanted:
        return []
    _may_write([*wanted], root, "tune")
    now = {str(path): machine.chosen(str(path)) for path in wanted}
    _keep(now | _kept(root), root)  # undo restores the values before the first change
    return [_set(path, knob.quiet, knob.name) for path, knob in wanted.items()]


def _keep(before: dict[str, str], root: Path) -> None:
    path = root / STATE
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, json.dumps({"boot": text(root / BOOT), "before": before, "time": time.time()}, indent=1))
    for place in (path, path.parent):
        number = os.open(place, os.O_RDONLY)
        os.fsync(number)
        os.close(number)


def _set(path: Path, value: str, name: str) -> str:
    before = machine.chosen(str(path))
    try:
        _write(path, value)
    except OSError as error:
        return f"{name}: {path} stays {before}: {error.strerror}"
    now = machine.chosen(str(path))
    return f"{name}: {path} was {before}, is {now}" if now == value else f"{name}: {path} stays {now}"


def _write(path: Path, value: str) -> None:
    path.write_text(value, encoding="ascii")


def undo(root: Path = ROOT) -> list[str]:
    """Restore the settings; return a line for each. Raises LabError."""
    kept = _kept(root)
    _may_write([Path(path) for path in kept], root, "undo")
    names = {str(path): knob.name for knob in KNOBS for path in knob.values(root)}
    lines = [_set(Path(path), value, names.get(path, "setting")) for path, value in kept.items()]
    left = {path: value for path, value in kept.items() if machine.chosen(path) != value}
    if left:
        _keep(left, root)
    else:
        (root / STATE).unlink(missing_ok=True)
    return lines
