"""The space that hak tune searches: the table of options, the arms made from it."""

import math
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.kinds.tune import result as service
from hakmem_lab.kinds.tune.spec import Space, Spec, candidates, space_of
from hakmem_lab.plan import peers, tunables
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.model import build

ROOT = Path(__file__).resolve().parents[3]
OPTIONS = ROOT / "src" / "system" / "options.def"


def spec(**keys):
    return build(Spec, {"kind": "tune", "command": ["true"], **keys}, "test")


@pytest.mark.parametrize("option", tunables.TABLE, ids=lambda option: option.name)
def test_a_row_is_whole(option):
    assert option.source and option.usual and option.values
    assert option.usual not in option.values and len(set(option.values)) == len(option.values)
    assert set(option.allocators) <= set(peers.names())
    assert (option.variable in tunables.JOINED) == bool(option.key)


def test_every_allocator_has_rows_or_a_reason():
    known = {name for option in tunables.TABLE for name in option.allocators}
    assert known | set(tunables.WITHOUT) | {"default"} >= set(peers.names())
    assert not known & set(tunables.WITHOUT)


@pytest.mark.skipif(not OPTIONS.is_file(), reason="needs the sources")
def test_the_rows_of_hakmem_are_options_with_these_defaults():
    rows = dict(re.findall(r'HAK_OPTION\(\w+, "(\w+)", (\w+),', OPTIONS.read_text(encoding="utf-8")))
    for option in tunables.options_of("hakmem"):
        assert option.variable.removeprefix("HAKMEM_") in rows


@pytest.mark.parametrize("name", ["hakmem", "jemalloc", "mimalloc", "tcmalloc", "mimalloc2", "mimalloc3", "jemalloc5"])
def test_a_library_has_the_options_of_its_rows(name):
    """The library contains the options' names. Their values are not checked."""
    try:
        library = peers.library(name).path
    except LabError as error:
        pytest.skip(str(error))
    content = library.read_bytes()
    for option in tunables.options_of(name):
        stem = option.key or re.sub(r"^(HAKMEM|MIMALLOC)_", "", option.variable)
        words = (stem.encode(), stem.lower().encode())
        assert any(word in content for word in words), option.name
        for value in option.values:
            env = {"LD_PRELOAD": str(library), **tunables.variables({option: value})}
            done = subprocess.run(["/bin/true"], env=env, capture_output=True, text=True, check=True)
            assert done.stderr == "", (option.name, value)


def test_the_tunables_of_glibc_are_known_to_it():
    loader = next((path for path in map(Path, ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"))
                   if path.exists()), None)  # fmt: skip
    done = loader and subprocess.run([loader, "--list-tunables"], capture_output=True, text=True, check=False)
    if not done or done.returncode:
        pytest.skip("the dynamic linker lists no tunables")
    for option in tunables.options_of("glibc"):
        assert not option.key or f"{option.key}:" in done.stdout


@pytest.mark.skipif(not (ROOT / "docs" / "lab" / "reference.md").is_file(), reason="needs the sources")
def test_the_manual_has_every_row():
    lines = (ROOT / "docs" / "lab" / "reference.md").read_text(encoding="utf-8").splitlines()
    for option in tunables.TABLE:
        (line,) = [line for line in lines if line.startswith(f"| {', '.join(option.allocators)} |")]
        assert f"`{option.name}` {' '.join(option.values)}" in line
    for name, why in tunables.WITHOUT.items():
        assert f"| {name} | none: {why} |" in lines


def test_options_share_a_variable_in_the_form_of_its_library():
    dirty, muzzy, narenas = tunables.options_of("jemalloc")[:3]
    text = tunables.arm_text("jemalloc", {dirty: "0", narenas: "2"})
    assert text == "jemalloc,MALLOC_CONF=dirty_decay_ms:0,narenas:2"
    assert tunables.variables({dirty: "0", muzzy: "10000"}) == {"MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:10000"}
    count, huge = (option for option in tunables.options_of("glibc") if option.key)
    assert tunables.variables({count: "0", huge: "1"}) == {
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.hugetlb=1"
    }


def test_an_arm_of_the_table_means_what_it_says():
    found = space_of(spec(allocators=["glibc"]))
    for text in [*found.singles(), *found.combined(200, 1)]:
        arm = parse_arm(text)
        assert text.startswith("glibc") and all("=" in part for part in text.split(",")[1:])
        assert set(arm.variables) <= {option.variable for option in tunables.options_of("glibc")}


def test_one_at_a_time_or_all_together():
    one = space_of(spec(allocators=["glibc"]))
    options = tunables.options_of("glibc")
    assert len(list(one.singles())) == 1 + sum(len(option.values) for option in options)
    few = Space({"scudo": tunables.options_of("scudo")}, [], {}, [])
    count = math.prod(1 + len(option.values) for option in tunables.options_of("scudo"))
    assert len(set(few.combined(64, 1))) == len(few.combined(64, 1)) == count <= 64


def test_of_many_combinations_as_many_are_drawn_as_are_asked_for():
    many = space_of(spec(allocators=["glibc"]))
    found = many.combined(20, 3)
    assert len(set(found)) == 20 and found[0] == "glibc" and found == many.combined(20, 3) != many.combined(20, 4)
    assert any(text.count("=") > 2 for text in found)


def test_where_not_all_can_be_tried_every_allocator_has_its_turn():
    """Allocators alternate in the list, since a budget cuts off its end."""
    options = {name: [tunables.Option((name,), "X", ("1", "2"), "", "")] for name in ("glibc", "hakmem")}
    names = [text.partition(",")[0] for text in Space(options, ["./own.so"], {}, []).combined(64, 1)]
    assert names[:3] == ["glibc", "hakmem", "./own.so"] and sorted(names) == ["./own.so"] + 3 * ["glibc"] + 3 * [
        "hakmem"
    ]
    assert names[3] != names[4]


def test_what_it_runs_on_now_is_no_candidate():
    keys = spec(allocators=["glibc", "glibc,A=1"], default="glibc")
    assert "glibc" not in candidates(keys, space_of(keys))
    assert "glibc,A=1" in candidates(keys, space_of(keys))


def arm(variables, library="/lib/x.so", allocator="x"):
    return {"variables": variables, "library": library, "allocator": allocator}


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("a b", "a b"),
        ('"', r"\""),
        ("100%", "100%%"),
        ("a\\n", "a\\\\n"),
        ("a\nb", r"a\nb"),
        ("$HOME", "$HOME"),
        ("'", "'"),
    ],
)
def test_a_value_in_a_unit_and_in_a_shell(value, quoted):
    found = service.environment(arm({"V": value}), None)
    assert service.systemd(found) == f'Environment="LD_PRELOAD=/lib/x.so" "V={quoted}"'
    line = service.shell(found, ["prog", "a b"])
    assert shlex.split(line) == ["LD_PRELOAD=/lib/x.so", f"V={value}", "prog", "a b"]


def test_what_else_is_preloaded_stays():
    found = service.environment(arm({"LD_PRELOAD": "/c.so"}), "/b.so")
    assert found == {"LD_PRELOAD": "/lib/x.so:/b.so:/c.so"}
    libc = arm({"A": "1"}, "/lib/libc.so.6", "glibc")
    assert service.environment(libc, "/b.so") == {"A": "1"}
    assert service.environment(libc, None, brought=True) == {"LD_PRELOAD": "/lib/libc.so.6", "A": "1"}


def lines(winner, now, others=None):
    found = service.service_lines(winner, now, others, False, ["prog"])
    return found["systemd"], found["unset"], found["shell"]


def test_what_it_runs_on_now_is_taken_away():
    """The default's settings must be removed one by one; a bare Environment= would remove all other variables, too."""
    glibc, now = arm({}, "/lib/libc.so.6", "glibc"), arm({"A": "1"}, "/lib/j.so", "jemalloc")
    assert lines(glibc, now) == ("", "UnsetEnvironment=LD_PRELOAD A", "env -u LD_PRELOAD -u A prog")
    assert lines(glibc, now, "/b.so") == (
        'Environment="LD_PRELOAD=/b.so"',
        "UnsetEnvironment=A",
        "env -u A LD_PRELOAD=/b.so prog",
    )
    assert lines(arm({"A": "2"}), now) == (
        'Environment="LD_PRELOAD=/lib/x.so" "A=2"',
        "",
        "LD_PRELOAD=/lib/x.so A=2 prog",
    )
    assert lines(glibc, glibc) == ("", "", "prog")
