"""scripts/debian-sources: apt source lines for this release and others. Unreleased suites have no update suites."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def suites(*release: str) -> list[str]:
    done = subprocess.run(
        [ROOT / "scripts" / "debian-sources", *release], capture_output=True, text=True, check=False, timeout=600
    )
    if not done.stdout:
        pytest.skip("this system has no sources of Debian")
    return [line.split()[2] for line in done.stdout.splitlines()]


def test_another_release_has_the_pockets_of_this_one():
    own = suites()
    name = min(own, key=len)
    assert suites("trixie") == [suite.replace(name, "trixie", 1) for suite in own]


@pytest.mark.parametrize("release", ["sid", "unstable", "experimental"])
def test_what_is_never_released_has_no_pockets(release):
    assert set(suites(release)) == {release}
