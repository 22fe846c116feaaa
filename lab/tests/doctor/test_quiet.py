"""`hak doctor --machine`: reads a machine's settings, changes them, and restores them."""

import json
import os

import pytest

from hakmem_lab.doctor import quiet
from hakmem_lab.errors import LabError

LOUD = {
    f"{quiet.CPU}/cpu0/cpufreq/scaling_governor": "powersave",
    f"{quiet.CPU}/cpu1/cpufreq/scaling_governor": "powersave",
    f"{quiet.CPU}/intel_pstate/no_turbo": "0", "proc/sys/kernel/randomize_va_space": "2",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never", "proc/sys/kernel/random/boot_id": "first",
}  # fmt: skip


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A made-up machine with two processors and settings that disturb measurements."""
    monkeypatch.setattr(quiet.machine, "busy_processors", lambda: 0.0)
    (tmp_path / "var/lib").mkdir(parents=True)
    for name, value in LOUD.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(value + "\n")
    return tmp_path


def values(root) -> dict[str, str]:
    return {name: (root / name).read_text().strip() for name in LOUD}


def states(root) -> dict[str, str]:
    return {check.name: check.state for check in quiet.check(root) if check.name != "other load"}


def test_every_setting_has_its_line(root):
    assert states(root) == {
        "governor": "note", "turbo": "note", "boost": "unknown", "ASLR": "ok", "huge pages": "note",
    }  # fmt: skip


def test_what_was_tuned_is_put_back(root):
    assert len(quiet.tune(root)) == 4
    assert states(root) == {
        "governor": "ok", "turbo": "ok", "boost": "unknown", "ASLR": "ok", "huge pages": "ok", "changed by hak": "note",
    }  # fmt: skip
    assert quiet.tune(root) == []
    quiet.undo(root)
    assert values(root) == LOUD | {"sys/kernel/mm/transparent_hugepage/enabled": "always"}
    assert not (root / quiet.STATE).exists()
    assert quiet.undo(root) == []


def test_a_crash_in_the_middle_loses_nothing(root, monkeypatch):
    """The old settings are on the disk before the first change, and a second tuning keeps that record."""
    set_ = quiet._set

    def crash(path, value, name):
        assert json.loads((root / quiet.STATE).read_text())["before"][str(path)] != value
        if name == "turbo":
            raise KeyboardInterrupt
        return set_(path, value, name)

    monkeypatch.setattr(quiet, "_set", crash)
    with pytest.raises(KeyboardInterrupt):
        quiet.tune(root)
    monkeypatch.setattr(quiet, "_set", set_)
    quiet.tune(root)
    quiet.undo(root)
    assert values(root) == LOUD | {"sys/kernel/mm/transparent_hugepage/enabled": "always"}


def test_after_a_restart_there_is_nothing_to_put_back(root):
    quiet.tune(root)
    (root / "proc/sys/kernel/random/boot_id").write_text("second")
    tuned = values(root)
    assert quiet.undo(root) == []
    assert values(root) == tuned and not (root / quiet.STATE).exists()


def test_without_the_right_nothing_is_changed(root, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: "no_turbo" not in str(path))
    with pytest.raises(LabError, match="nothing was changed") as refused:
        quiet.tune(root)
    assert "no_turbo" in str(refused.value)
    assert values(root) == LOUD and not (root / quiet.STATE).exists()


def test_what_the_kernel_refuses_is_said(root, monkeypatch):
    turbo = root / quiet.CPU / "intel_pstate/no_turbo"
    monkeypatch.setattr(quiet, "_write", lambda path, value: None if path == turbo else path.write_text(value))
    (line,) = [line for line in quiet.tune(root) if line.startswith("turbo")]
    assert line.endswith("stays 0")
    quiet.undo(root)
    assert values(root)[f"{quiet.CPU}/intel_pstate/no_turbo"] == "0"


def test_a_damaged_file_is_named(root):
    (root / quiet.STATE).parent.mkdir()
    (root / quiet.STATE).write_text("{")
    with pytest.raises(LabError, match=r"system\.json cannot be read"):
        quiet.undo(root)


@pytest.mark.parametrize(("busy", "state"), [(0.0, "ok"), (0.3, "ok"), (0.5, "note"), (1.0, "note"), (64.0, "note")])
def test_a_processor_that_is_at_work_disturbs(root, monkeypatch, busy, state):
    monkeypatch.setattr(quiet.machine, "busy_processors", lambda: busy)
    assert quiet.load(root).state == state


def test_the_command(here):
    answer = here("system", "check", "--json", "-")
    assert answer.status == (0 if (found := answer.result())["quiet"] else 1)
    assert [check["name"] for check in found["checks"]][:6] == [*(knob.name for knob in quiet.KNOBS), "other load"]
    assert "did you mean 'tune'" in here("system", "tun").message()


def test_changes_are_written_as_json(here, monkeypatch):
    monkeypatch.setattr(quiet, "tune", lambda: ["boost: it was 1, is 0"])
    assert here("doctor", "--machine", "--tune", "--json", "-").result() == {"changes": ["boost: it was 1, is 0"]}
    assert here("doctor", "--machine", "--tune").out.startswith("boost: it was 1, is 0\nhak doctor --machine --undo")
