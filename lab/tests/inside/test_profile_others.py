"""`hak heap profile PID` of a process that does not use hakmem."""

from pathlib import Path

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.inside.profile import forms
from hakmem_lab.plan.arms import parse_arm


@pytest.mark.parametrize("name", ["default", "jemalloc", "mimalloc", "tcmalloc"])
def test_a_process_on_another_allocator_is_sampled_by_the_recorder(here, start, made, tmp_path, name):
    try:
        env = {"LD_PRELOAD": parse_arm(name).preload(None) or ""}
    except LabError as error:
        pytest.skip(str(error))
    sites = made("sites.c", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
    running, file = start(sites, preload=False, env=env), tmp_path / "p.pb.gz"
    answer = here("profile", "-o", file, "--rate", "4K", "--seconds", "1", running.pid)
    assert answer.status == 0, answer.err
    assert "does not use hakmem: its calls are sampled for 1 s" in answer.err
    found = forms.read(file)
    assert Path(found.main).name == "sites" and "by the recorder" in found.comments[0]
    assert here("profile", "-o", tmp_path / "p.folded", "--rate", "4K", "--seconds", "1", running.pid).status == 0
    text = (tmp_path / "p.folded").read_text()
    assert "round_of" in text and "hot" in text and "cold" in text
    assert running.process.poll() is None
